"""What takes more decisions than one: namespaces without defaults, and the command line."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.amounts import target_of, whole_counts
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.meaning import ALL, UNLIMITED, Amounts
from tests.fuzz.oracle.reading import Read
from tests.fuzz.trial import NAMESPACE, Finding, RaisedError, Trial, all_containers, called, decode
from webhook.cli.files import Manifest
from webhook.cli.simulate import SimulatedObject, simulate
from webhook.doctor import Level
from webhook.reasons import Reason

Json = dict[str, Any]


def sampled_findings(trial: Trial) -> Iterator[Finding]:
    """Everything in which other ways to the decision disagree with it."""
    yield from _without_defaults(trial)
    yield from _in_a_list(trial)
    yield from _command_line(trial)


def contradiction_findings(trial: Trial) -> Iterator[Finding]:
    """What is wrong with a denial that defaults may have caused: the engine contradicts itself, or containers disagree."""
    denial = trial.decision.denial
    several = sum(read.vendor is not None for read in trial.before) > 1
    if denial is not None and (several or denial.reason is Reason.READ_BACK_DIFFERS):
        yield from _without_defaults(trial)
        yield from _in_a_list(trial)


def _without_defaults(trial: Trial) -> Iterator[Finding]:
    """A namespace's defaults change nothing that the pod specifies, and stop no pod that is in order without them."""
    prefix, chosen = f"{PREFIX}default-", f"{PREFIX}bare-devices"
    plain = {key: text for key, text in trial.case.annotations.items() if not key.startswith(prefix)}
    if len(plain) == len(trial.case.annotations) or trial.skipped:
        return
    # A default of memory also decides what a count alone requests; without it the annotation for that does.
    plain[chosen] = "whole" if whole_counts(trial) else "share"
    other = Trial(replace(trial.case, annotations=plain))
    if not other.decision.allowed:
        return
    denial = trial.decision.denial
    if denial is not None:
        # A default may make a share of whole devices, and a share needs more: a scheduler, no privilege.
        # What has no limit because the pod specifies so, or all memory, cannot be written by leaving a key out where a
        # default would take its place.
        if denial.reason.code < "VGW500" and not (denial.reason is Reason.NO_EQUIVALENT and _specifies_all(trial)):
            yield Finding("a namespace's default stops no pod", denial.text)
        return
    if trial.decision.patch_json or other.decision.patch_json:
        yield from _specified(trial, other)


def _in_a_list(trial: Trial) -> Iterator[Finding]:
    """VKE counts the devices of every container: containers that are in order alone are so beside one another.

    Unless one has less memory than it may have in the list, which has no entries for init containers.
    """
    denial = trial.decision.denial
    requesting = [read for read in trial.before if read.vendor is not None]
    if denial is None or denial.reason is not Reason.READ_BACK_DIFFERS or "mgpu-memory" in denial.message:
        return
    if any(read.init or read.vendor == "vke" or target_of(trial, read.vendor or "") != "vke" for read in requesting):
        return
    for read in requesting:
        pod = copy.deepcopy(trial.case.pod)
        for container in all_containers(pod):
            if container["name"] != read.name:
                container.pop("resources", None)
        if not Trial(replace(trial.case, pod=pod)).decision.allowed:
            return
    yield Finding("a list counts every container", denial.text)


def _specifies_all(trial: Trial) -> bool:
    """Whether a container does, or may: what a slice holds only its node knows."""
    return any(
        read.unsure is not None
        if read.meaning is None
        else UNLIMITED in (read.meaning.memory, read.meaning.cores)
        or read.meaning.memory == ALL
        # HAMi 2.10.0 has no key for all memory of AMD's devices: it is specified by leaving the size out.
        or (read.vendor == "amd" and read.meaning.memory is None)
        for read in trial.before
    )


def _specified(trial: Trial, other: Trial) -> Iterator[Finding]:
    for read, with_defaults, without in zip(trial.before, trial.after, other.after, strict=True):
        if read.meaning is None:
            continue
        got, wanted = _amounts(with_defaults), _amounts(without)
        if got is None or wanted is None:
            continue
        for dimension in {"devices", "memory", "cores"} - read.meaning.unset:
            if getattr(got, dimension) != getattr(wanted, dimension):
                detail = f"{read.name}: {dimension} of {wanted} became {got}"
                yield Finding("a default changes nothing that is specified", detail, read.vendor or "")


def _amounts(read: Read) -> Amounts | None:
    return None if read.meaning is None else read.meaning.amounts()


def _command_line(trial: Trial) -> Iterator[Finding]:
    """``vgpu-webhook mutate`` prints what the server would have stored."""
    case = trial.case
    if case.user:
        return
    metadata = {"name": NAMESPACE, "labels": case.labels, "annotations": case.annotations}
    pod = decode(trial.raw)
    pod["metadata"]["namespace"] = NAMESPACE
    manifests = [
        Manifest("fuzz", data, {(): 1})
        for data in ({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, pod)
    ]
    try:
        outcome = called(simulate, manifests, trial.policy)
    except RaisedError as error:
        yield Finding("mutate prints what the server stores", str(error))
        return
    treated = outcome.objects[0]
    if not _same(treated, trial):
        yield Finding(
            "mutate prints what the server stores", json.dumps([treated.patch, treated.told(Level.ERROR)])[:500]
        )


def _same(treated: SimulatedObject, trial: Trial) -> bool:
    decision = trial.decision
    if bool(treated.told(Level.ERROR)) == decision.allowed or treated.told(Level.WARNING) != tuple(
        finding.text for finding in decision.warnings
    ):
        return False
    if treated.after is None:
        return True
    stored = copy.deepcopy(trial.stored)
    stored["metadata"]["namespace"] = NAMESPACE
    return bool(treated.after == stored)
