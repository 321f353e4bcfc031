"""The table of faults: their effect on pods, and where they are reported."""

from dataclasses import replace
from typing import Final

from . import in_cluster, in_installation, in_objects, in_replicas
from .fault import Bound, Fault, Finding, Signs

AWAY: Final = Bound("until a replica answers", None, 60)
EXCLUDED: Final = Bound("until the Service excludes the replica", 120, 10)
STARTING: Final = Bound("until replicas have started", None, 60)
ONCE: Final = Bound("until the repair", 60, 10)
AGAIN: Final = Bound("until the repair", None, 65)
NO_STORE: Final = Bound("none is created while the API server cannot store it, and is not connected again", None, 90)

LOST_WITH_API_SERVER: Final = "the API server cannot store them"
CUT_OFF: Final = "the replicas cannot reach the API server"
OWN_WAY: Final = "it has its own connection"
NOT_RUNNING: Final = "stopped replicas write nothing"
KUBELET: Final = "only the kubelet's"
ANOTHER_ANSWERS: Final = "the other replica answers"
COUNTED: Final = "there may be thousands"
NO_OBJECT: Final = "no object is affected"
NO_EFFECT: Final = "pods are changed as before"

CONFIGURATION: Final = "mutatingwebhookconfiguration/00-vgpu-webhook"
SECRET: Final = "secret/vgpu-webhook-certificates"
RECORD: Final = "configmap/vgpu-webhook-last-good"


def _told(log: str, event: str, about: str, metric: str, alert: str) -> Signs:
    """What each channel tells of, where `check` shows the Event, which is about an object."""
    return Signs((log,), (event,), (metric,), (alert,), (Finding("events", f"{event}: {about}"),))


def _of_certificates(event: str, about: str = SECRET) -> Signs:
    """What tells of certificates that cannot be kept."""
    metric, alert = "vgpu_webhook_certificate_failures_total", "VgpuWebhookCertificateFailures"
    return _told("certificates", event, about, metric, alert)


REPAIRED: Final = _told(
    "registration",
    "RegistrationRepaired",
    CONFIGURATION,
    "vgpu_webhook_configuration_repairs_total",
    "VgpuWebhookConfigurationChanged",
)
REPAIRED_OFTEN: Final = replace(
    REPAIRED,
    metrics=(*REPAIRED.metrics, "vgpu_webhook_configuration_as_desired"),
    alerts=(*REPAIRED.alerts, "VgpuWebhookPodsKeptOut"),
    events=(*REPAIRED.events, "RegistrationContested"),
    checks=(Finding("events", f"RegistrationContested: {CONFIGURATION}"),),
)
RESTORED: Final = _of_certificates("CertificateRestored")
UNTRUSTED: Final = replace(
    _of_certificates("CertificateUntrusted"),
    metrics=("apiserver_admission_webhook_rejection_count",),
    alerts=("VgpuWebhookFailClosed",),
)
REJECTED: Final = replace(
    _told(
        "mapping_rejected", "MappingRejected", "", "vgpu_webhook_config_map_accepted", "VgpuWebhookConfigMapRejected"
    ),
    checks=(Finding("mappings", "not in force"),),
)
NO_SETTINGS: Final = Signs(
    log=("settings_missing",),
    metrics=REJECTED.metrics,
    alerts=REJECTED.alerts,
    checks=(Finding("mappings", "a count alone requests whole devices"),),
)
IDLE: Final = Fault(
    "200 idle connections to a replica that permits 64",
    in_replicas.idle_connections,
    Signs(metrics=("vgpu_webhook_connections_evicted_total",), alerts=("VgpuWebhookConnectionsEvicted",)),
    silent={"log": COUNTED, "events": NO_OBJECT, "checks": NO_EFFECT},
    before=in_replicas.few_connections,
)

FAULTS: Final = (
    Fault(
        "the API server is stopped",
        in_cluster.api_server_stopped,
        Signs(
            log=("watch_failed",),
            metrics=("vgpu_webhook_watch_age_seconds",),
            alerts=("VgpuWebhookWatchStale",),
            checks=(Finding("api-server", "the API server does not answer"),),
        ),
        silent={"events": LOST_WITH_API_SERVER},
        watched=False,
        unanswered=NO_STORE,
        recovers=30,
    ),
    Fault(
        "etcd is stopped",
        in_cluster.store_stopped,
        Signs(
            metrics=("vgpu_webhook_watch_age_seconds",),
            alerts=("VgpuWebhookWatchStale",),
            checks=(Finding("mappings", "could not be read"), Finding("registration", "could not be read")),
        ),
        silent={"log": "watches stay open", "events": LOST_WITH_API_SERVER},
        watched=False,
        unanswered=NO_STORE,
        recovers=90,
    ),
    Fault(
        "replicas cannot reach the API server",
        in_cluster.way_cut,
        Signs(log=("watch_failed",), metrics=("vgpu_webhook_watch_age_seconds",), alerts=("VgpuWebhookWatchStale",)),
        silent={"events": CUT_OFF, "checks": OWN_WAY},
        lasts=8,
    ),
    Fault(
        "a namespace opts in while watches deliver nothing",
        in_cluster.stale_label,
        Signs(
            metrics=("vgpu_webhook_watch_age_seconds", "vgpu_webhook_namespace_rechecks_total"),
            alerts=("VgpuWebhookWatchStale", "VgpuWebhookNamespacesStale"),
        ),
        silent={"log": "watches stay open", "events": CUT_OFF, "checks": OWN_WAY},
        denied=Bound("while the API server does not answer for the namespace", None, 10),
        lasts=5,
    ),
    Fault(
        "one replica is killed",
        in_replicas.one_killed,
        Signs(metrics=("vgpu_webhook_ready",), alerts=("VgpuWebhookTooFewReplicas",)),
        silent={"log": NOT_RUNNING, "events": KUBELET, "checks": ANOTHER_ANSWERS},
        denied=EXCLUDED,
    ),
    Fault(
        "all replicas are killed",
        in_replicas.all_killed,
        Signs(
            metrics=("apiserver_admission_webhook_rejection_count", "vgpu_webhook_ready"),
            alerts=("VgpuWebhookFailClosed", "VgpuWebhookNoReplica", "VgpuWebhookTooFewReplicas"),
            checks=(
                Finding("dry-run", "the API server cannot call the webhook"),
                Finding("served", "another program answers"),
            ),
        ),
        silent={"log": NOT_RUNNING, "events": KUBELET},
        denied=AWAY,
        recovers=60,
    ),
    Fault(
        "one replica is suspended",
        in_replicas.one_suspended,
        Signs(metrics=("vgpu_webhook_ready",), alerts=("VgpuWebhookTooFewReplicas",)),
        silent={"log": NOT_RUNNING, "events": KUBELET, "checks": ANOTHER_ANSWERS},
        denied=EXCLUDED,
        lasts=8,
    ),
    Fault(
        "all replicas are suspended",
        in_replicas.all_suspended,
        Signs(
            metrics=("apiserver_admission_webhook_rejection_count", "vgpu_webhook_ready"),
            alerts=("VgpuWebhookFailClosed", "VgpuWebhookNoReplica", "VgpuWebhookTooFewReplicas"),
            checks=(Finding("dry-run", "the API server cannot call the webhook"),),
        ),
        silent={"log": NOT_RUNNING, "events": KUBELET},
        denied=AWAY,
        lasts=8,
    ),
    IDLE,
    replace(
        IDLE, name="a replica has few file descriptors, and 200 idle connections", before=in_replicas.few_descriptors
    ),
    Fault(
        "the disks of all replicas are full, their logs' too, and the Secret is deleted",
        in_installation.disks_full,
        Signs(
            events=("CertificateRestored",),
            metrics=("vgpu_webhook_log_lines_lost_total", "vgpu_webhook_certificate_failures_total"),
            alerts=("VgpuWebhookLogLost", "VgpuWebhookCertificateFailures"),
            checks=RESTORED.checks,
        ),
        silent={"log": "it cannot be written"},
    ),
    Fault(
        "the disk of `--state-dir` is full, and the certificate there is lost",
        in_installation.state_folder_full,
        _of_certificates("CertificateStore", CONFIGURATION),
        before=in_installation.state_folder,
        lasts=8,
    ),
    Fault("a replica's clock is 70 days ahead", in_replicas.clock_ahead, _of_certificates("CertificateStore"), lasts=8),
    Fault(
        "30 reviews with namespaces of 6.5 MB",
        in_replicas.huge_namespaces,
        Signs(metrics=("vgpu_webhook_http_errors_total",)),
        silent={"log": COUNTED, "events": NO_OBJECT, "alerts": NO_EFFECT, "checks": NO_EFFECT},
    ),
    Fault(
        "a flood of reviews that are denied",
        in_replicas.denials,
        Signs(log=("reviews_suppressed",), metrics=("vgpu_webhook_reviews_total",), alerts=("VgpuWebhookDenials",)),
        silent={"events": "the user is told", "checks": "denied pods do not exist"},
    ),
    Fault("the Secret is deleted", in_objects.secret_deleted, RESTORED),
    Fault(
        "the Secret is lost and caBundle contains a foreign CA while all replicas start",
        in_installation.strangers_bundle,
        UNTRUSTED,
        denied=STARTING,
        recovers=60,
    ),
    Fault(
        "the webhook configuration is deleted every 0.8 s",
        in_objects.configuration_deleted,
        REPAIRED_OFTEN,
        denied=AGAIN,
        lasts=10,
        recovers=65,
    ),
    Fault(
        "the webhook configuration is opened every 0.8 s",
        in_objects.configuration_opened,
        REPAIRED,
        lasts=10,
        recovers=65,
    ),
    Fault(
        "a namespace selector that selects nothing", in_objects.namespaces_kept_out, REPAIRED, denied=ONCE, recovers=65
    ),
    Fault("a mapping with 2,000 long keys", in_objects.long_conditions, REJECTED),
    Fault(
        "the last good documents are deleted",
        in_objects.last_good_deleted,
        Signs(
            log=("last_good_restored",),
            events=("LastGoodRestored",),
            checks=(Finding("events", f"LastGoodRestored: {RECORD}"),),
        ),
        silent={"metrics": "it is written again at once", "alerts": "it is written again at once"},
        before=in_objects.in_force_by_record,
    ),
    Fault(
        "more last good documents than fit the record",
        in_objects.last_good_full,
        _told("last_good_full", "LastGoodFull", RECORD, "vgpu_webhook_last_good_left_out", "VgpuWebhookLastGoodFull"),
    ),
    Fault(
        "the webhook's namespace is deleted and created again",
        in_installation.namespace_lost,
        NO_SETTINGS,
        silent={"events": NO_OBJECT},
        before=in_installation.settings_again_and_controllers,
    ),
    Fault(
        "all ConfigMaps of the webhook are deleted at once",
        in_installation.config_maps_deleted,
        NO_SETTINGS,
        silent={"events": NO_OBJECT},
        before=in_installation.settings_again,
    ),
    Fault(
        "a mapping is added while one replica has the previous version",
        in_objects.another_mapping,
        Signs(),
        before=in_installation.version_before,
        lasts=8,
        harmless=True,
    ),
    Fault("a second installation", in_objects.second_installation, REPAIRED, lasts=8),
    Fault("2,000 mappings, more than may be in force", in_cluster.many_mappings, REJECTED),
    Fault("5,000 namespaces", in_cluster.many_namespaces, Signs(), harmless=True),
)
