{{/*
A rename, by fullnameOverride or nameOverride, in three upgrades, so that the Service that the webhook configuration calls always
exists and answers:

1. The Service and the Deployment of the former name stay beside those of the new name; the webhook configuration calls the former.
2. Once replicas of the new name are ready, the webhook configuration calls these; the former Service stays.
3. Nothing with the former name is left.

The state is read from the cluster. Where nothing can be read (`helm template`), there is no rename.
*/}}

{{/* The name of this release's Service that the webhook configuration calls, if it is not the current one. */}}
{{- define "vgpu-webhook.formerName" -}}
{{- if and .Release.IsUpgrade (not .Values.registration.url) -}}
{{- $registration := lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "00-vgpu-webhook" | default dict -}}
{{- with $registration.webhooks | default list | first -}}
{{- $called := dig "clientConfig" "service" (dict "name" "" "namespace" "") . -}}
{{- if and (eq $called.namespace $.Release.Namespace) (ne $called.name (include "vgpu-webhook.fullname" $)) -}}
{{- $found := lookup "v1" "Service" $called.namespace $called.name | default dict -}}
{{- if eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found) $.Release.Name -}}
{{- $called.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Service that the webhook registers: the former one until a replica of the new name is ready. */}}
{{- define "vgpu-webhook.serviceName" -}}
{{- $name := include "vgpu-webhook.fullname" . -}}
{{- $former := include "vgpu-webhook.formerName" . -}}
{{- $found := lookup "apps/v1" "Deployment" .Release.Namespace $name | default dict -}}
{{- if and $former (not (dig "status" "readyReplicas" 0 $found)) -}}
{{- $former -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The other Service in front of it during a rename, for which its certificate must be valid, too. */}}
{{- define "vgpu-webhook.otherServiceName" -}}
{{- with include "vgpu-webhook.formerName" . -}}
{{- $registered := include "vgpu-webhook.serviceName" $ -}}
{{- ternary (include "vgpu-webhook.fullname" $) . (eq $registered .) -}}
{{- end -}}
{{- end -}}
