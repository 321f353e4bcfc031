{{/* Rejects values that make objects which no API server accepts, or pods that do something else than the values specify. */}}
{{- define "vgpu-webhook.check" -}}
{{- include "vgpu-webhook.checkImage" . -}}
{{- include "vgpu-webhook.checkNames" . -}}
{{- include "vgpu-webhook.checkPorts" . -}}
{{- include "vgpu-webhook.checkOptions" . -}}
{{- include "vgpu-webhook.checkNetworks" . -}}
{{- include "vgpu-webhook.checkShim" . -}}
{{- include "vgpu-webhook.checkBareDevices" . -}}
{{- end -}}

{{/* An empty section in a file of values deletes the chart's. In the template that Helm executes first: others need what is lacking. */}}
{{- define "vgpu-webhook.checkSections" -}}
{{- range $path := list "image" "registration" "certificates" "certificates.certManager" "claims" "drain" "containerPorts" "service"
  "serviceAccount" "rbac" "podDisruptionBudget" "networkPolicy" "serviceMonitor" "prometheusRule" "dashboard" "shim" "shim.installer"
  "shim.installer.image" "test" -}}
{{- $found := $.Values -}}
{{- range splitList "." $path -}}
{{- $found = get ($found | default dict) . -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "%s is empty, which deletes the chart's values: remove that line, or write values below it" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Neither may happen by surprise: whole devices taken by pods that were to share, or pods written for whole devices shrunk. */}}
{{- define "vgpu-webhook.checkBareDevices" -}}
{{- if not (.Values.settings | default dict).bareDevices -}}
{{- fail "settings.bareDevices is not set: write --set settings.bareDevices=whole, and a count of devices alone, such as nvidia.com/gpu: 1, requests whole devices; or settings.bareDevices=share, and it gets the default memory of its mapping (5000 MiB for nvidia.com/gpu), which shrinks pods that were written for whole devices" -}}
{{- end -}}
{{- end -}}

{{/* Without a name, or with a wrong one, only the kubelet would report the mistake, and pods would wait. */}}
{{- define "vgpu-webhook.checkImage" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is not set: build the image as docs/install.md#the-image says, push it to a registry of yours, and write --set image.repository=registry.example/vgpu-webhook" -}}
{{- end -}}
{{- if and (eq .Values.shim.mode "inject") .Values.shim.installer.enabled (not .Values.shim.installer.image.repository) -}}
{{- fail "shim.installer.image.repository is empty: write the repository of an image with the library, such as docker.io/projecthami/hami" -}}
{{- end -}}
{{- end -}}

{{/* Only the cluster's administrator knows what mounts the library, and two copies in one process are worse than none. */}}
{{- define "vgpu-webhook.checkShim" -}}
{{- if not .Values.shim.mode -}}
{{- fail "shim.mode is not set: write --set shim.mode=plugin if the device plugin mounts the enforcing library, as HAMi's does, or else --set shim.mode=inject" -}}
{{- end -}}
{{- end -}}

{{/* The rules for names of Services are the strictest, and the names of all objects of a release are made from that name. */}}
{{- define "vgpu-webhook.checkNames" -}}
{{- $legal := "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$" -}}
{{- $write := "write at most 63 lower-case letters, digits and hyphens, a letter first and no hyphen last, such as gpu-shares" -}}
{{- range $value := list "nameOverride" "fullnameOverride" -}}
{{- $found := get $.Values $value -}}
{{- if and $found (not (regexMatch $legal $found)) -}}
{{- fail (printf "%s is %q, which cannot be the name of a Service: %s" $value $found $write) -}}
{{- end -}}
{{- end -}}
{{- $name := include "vgpu-webhook.fullname" . -}}
{{- if not (regexMatch $legal $name) -}}
{{- fail (printf "the release name %s makes the name %s, which cannot be the name of a Service: set fullnameOverride, and %s" .Release.Name $name $write) -}}
{{- end -}}
{{- $there := lookup "apps/v1" "Deployment" .Release.Namespace $name | default dict -}}
{{- $selector := dig "spec" "selector" "matchLabels" dict $there -}}
{{- if and $selector (ne (toJson $selector) (include "vgpu-webhook.selectorLabels" (list . "webhook") | fromYaml | toJson)) -}}
{{- fail (printf "the Deployment %s selects other pods (%s), which Kubernetes does not permit to change: restore nameOverride, or set fullnameOverride to another name, too" $name (toJson $selector)) -}}
{{- end -}}
{{- end -}}

{{/* Ports that are available and different. */}}
{{- define "vgpu-webhook.checkPorts" -}}
{{- $ports := .Values.containerPorts -}}
{{- if eq (int $ports.webhook) (int $ports.metrics) -}}
{{- fail (printf "containerPorts: webhook and metrics are both %d: write two different ports" (int $ports.webhook)) -}}
{{- end -}}
{{- if eq (int $ports.metrics) 443 -}}
{{- fail "containerPorts.metrics is 443, the port of the Service for reviews: write another one, such as 8080" -}}
{{- end -}}
{{- end -}}

{{/* Options that the chart sets from a value, or that its pods cannot have, as arguments or as variables. */}}
{{- define "vgpu-webhook.checkOptions" -}}
{{- $values := dict
  "listen" "containerPorts.webhook" "plain-listen" "containerPorts.metrics" "url" "registration.url"
  "service" "fullnameOverride" "registration" "registration.mode" "drain-grace" "drain.graceSeconds" "log-level" "logLevel"
  "owner-events" "ownerEvents" "claims" "claims.enabled"
  "certificate-dir" "certificates.mode" "ca-settle" "certificates.caSettleSeconds"
  "extra-name" "certificates.extraNames" "client-ca-file" "certificates.clientCaConfigMap" "settings" "settings"
  "mappings" "mappings" -}}
{{- $without := list "standalone" "namespaces" "kubeconfig" "release-namespace" "state-dir" "version" "help" "h" -}}
{{- $found := list -}}
{{- range .Values.extraArgs -}}
{{- $found = append $found (dict "option" (regexFind "^--?[a-z-]+" . | trimAll "-") "text" (printf "extraArgs: %s" .)) -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- $option := regexFind "^VGPU_WEBHOOK_[A-Z_]+$" (toString .name) | trimPrefix "VGPU_WEBHOOK_" | lower | replace "_" "-" -}}
{{- $found = append $found (dict "option" $option "text" (printf "extraEnv: %s" .name)) -}}
{{- end -}}
{{- range $found -}}
{{- if hasKey $values .option -}}
{{- fail (printf "%s: the chart has a value for this: remove it, and set %s" .text (get $values .option)) -}}
{{- else if has .option $without -}}
{{- fail (printf "%s: a pod of the chart cannot have this option: remove it" .text) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Networks as in a NetworkPolicy: IPv4 or IPv6, in CIDR notation. */}}
{{- define "vgpu-webhook.checkNetworks" -}}
{{- $policy := .Values.networkPolicy -}}
{{- $found := list -}}
{{- range $policy.apiServerCidrs -}}
{{- $found = append $found (list "apiServerCidrs" .) -}}
{{- end -}}
{{- range $policy.extraEgress -}}
{{- range .to -}}
{{- with .ipBlock -}}
{{- range prepend (.except | default list) .cidr -}}
{{- $found = append $found (list "extraEgress" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $policy.metricsFrom -}}
{{- with .ipBlock -}}
{{- range prepend (.except | default list) .cidr -}}
{{- $found = append $found (list "metricsFrom" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])" -}}
{{- $four := printf "^(%s[.]){3}%s/(3[0-2]|[12]?[0-9])$" $byte $byte -}}
{{- $group := "[0-9a-fA-F]{1,4}" -}}
{{- $bits := "/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$" -}}
{{- $six := printf "^(%s:){7}%s%s" $group $group $bits -}}
{{- $short := printf "^((%s:){0,6}%s)?::((%s:){0,6}%s)?%s" $group $group $group $group $bits -}}
{{- range $found -}}
{{- $text := toString (index . 1) -}}
{{- $whole := or (regexMatch $four $text) (regexMatch $six $text) -}}
{{- if not (or $whole (and (regexMatch $short $text) (le (len (regexFindAll $group (splitList "/" $text | first) -1)) 7))) -}}
{{- fail (printf "networkPolicy.%s: %q is not a network: write it in CIDR notation, such as 192.0.2.0/24 or 2001:db8::/32" (index . 0) $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
