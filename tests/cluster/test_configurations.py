"""Webhook configurations, to the letter: as a policy has them made, as one of a cluster is read, and how it differs.

A case has `settings` and a `mapping`, of the mutating configuration or the one of another `kind`, for a Service or a `url`.
What others have changed in it since is `set`, null takes it away; `wanted` are settings and mapping by now. `show` is the
path of what is shown of it; else `told` is what it was made from, whether it is to be written, terms that are not ours,
and the differences.

``--update-golden`` writes `told` anew.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.mapping.vendors import policy as policy_of
from tests.yaml_text import hold, put
from webhook.admission import eligibility
from webhook.cluster.registration.stored import Pass, age_of, differences, fails_open, other_writers, read_stored
from webhook.cluster.registration.wanted import (
    AUDIT_MODES,
    KINDS,
    ServiceReference,
    Site,
    Wanted,
    registration,
    terms_text,
    wanted_by,
)
from webhook.labels import INJECT, MATCHED_NAMES
from webhook.mapping.load import load_policy

TABLE = Path(__file__).with_name("configurations.yaml")
CA = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
Json = dict[str, Any]


def wanted(case: Json) -> Wanted:
    """What a policy requires."""
    documents = [case["mapping"]] if "mapping" in case else []
    made = policy_of(*documents, settings=case.get("settings", ""))
    [kind] = [each for each in KINDS if each.kind.startswith(case.get("kind", "Mutating"))]
    return wanted_by(made, kind)


def shortened(part: Any) -> Any:
    """The same, without what depends on the built-in names."""
    if isinstance(part, dict):
        return {key: "…" if key == "expression" else shortened(value) for key, value in part.items()}
    return [shortened(each) for each in part] if isinstance(part, list) else part


def origin(made: Wanted | None, want: Wanted) -> str:
    """What a configuration was made from; kinds of workloads cannot be read where none are judged."""
    if made is None:
        return "nothing known"
    same = (made.digest, made.matched_names, made.opt_in, made.timeout, made.subjects)
    return (
        "this policy"
        if same == (want.digest, want.matched_names, want.opt_in, want.timeout, want.subjects)
        else "another"
    )


def told_of(case: Json) -> str:
    """What is shown of a configuration, or read in it."""
    made, want = wanted(case), wanted({**case, **case.get("wanted", {})})
    site = Site(case["url"]) if "url" in case else Site(ServiceReference("gpu", "webhook"), CA, "gpu")
    found: Any = copy.deepcopy(registration(made, site, version=case.get("version", "1.2.0")))
    for path, value in case.get("set", {}).items():
        put(found, path, value)
    if "show" in case:
        for step in filter(None, case["show"].split(" ")):
            found = found[int(step) if isinstance(found, list) else step]
        return str(yaml.safe_dump(shortened(found), sort_keys=False, width=10_000, allow_unicode=True))
    read = read_stored(found, kind=made.kind)
    named = ", ".join(each["name"].removesuffix(".vgpu-webhook.io") for each in found.get("webhooks", ())) or "none"
    lines = [f"{named}: made from {origin(read.made_from, want)}, by {read.version}"]
    lines += ["fails open"] if fails_open(found, want) else []
    lines += ["to be written"] if Pass(read, want, site, "1.2.0", announced=True, quiet=True).update() else []
    lines += [f"foreign in {name}: {terms_text(terms)}" for name, terms in read.foreign.items()]
    lines += [f"written by {each}" for each in other_writers(found)]
    lines += [f"{each.severity.name}: {each}" for each in differences(found, want, site, [])]
    if read.foreign and read.made_from is not None:
        again = registration(made, site, version="1.2.0", foreign=read.foreign)
        assert read_stored(again, kind=made.kind).foreign == read.foreign
    return "\n".join(lines)


def test_told(*, update_golden: bool) -> None:
    """Each configuration is made, read and compared as its line says."""
    hold(TABLE, "cases", told_of, update=update_golden)


def test_one_without_a_writer_is_kept_by_hand() -> None:
    """Nobody would keep its digest up to date."""
    configuration = registration(wanted({}), Site("https://gpu.example/mutate"))
    assert configuration["metadata"]["annotations"].keys() == {MATCHED_NAMES}
    assert read_stored(configuration).digest is None


def test_names_are_those_of_the_engine() -> None:
    """The labels by which namespaces are selected are those that decisions look at."""
    assert load_policy().settings.opt_in_label == INJECT
    assert set(AUDIT_MODES) == {mode.value for mode in eligibility.Mode} - {"enforce"}


def test_versions() -> None:
    """Numbers, not letters; what comes before a release is older; nonsense is older than all."""
    texts = [
        "nonsense",
        "0.1.0.dev3",
        "0.1.0a1",
        "0.1.0rc1",
        "0.1.0",
        "0.1.1",
        "0.2",
        "0.10.0",
        "1.0.0-rc.1",
        "1",
        "1.0.post1",
    ]
    assert sorted(set(texts), key=age_of) == texts
    assert age_of("1.0") == age_of("1.0.0")
