{{/* Names. A cluster has one installation: objects without a namespace, and those that the code knows by name, have fixed names. */}}
{{- define "vgpu-webhook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "vgpu-webhook.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A name with a suffix that is not truncated: (list . "ending"). */}}
{{- define "vgpu-webhook.named" -}}
{{- $ending := index . 1 -}}
{{- printf "%s-%s" (include "vgpu-webhook.fullname" (index . 0) | trunc (sub 62 (len $ending) | int) | trimSuffix "-") $ending -}}
{{- end -}}

{{- define "vgpu-webhook.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "vgpu-webhook.serviceName" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Selector labels of one component: (list . "webhook"). */}}
{{- define "vgpu-webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "vgpu-webhook.name" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of one component: (list . "webhook"). */}}
{{- define "vgpu-webhook.labels" -}}
{{- $top := index . 0 -}}
{{ include "vgpu-webhook.selectorLabels" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $top.Values.commonLabels }}
{{ include "vgpu-webhook.givenLabels" (list $top "commonLabels" .) }}
{{- end }}
{{- end -}}

{{/* Labels from a value: (list . "podLabels" labels). One of the chart's own would occur twice, and select other pods. */}}
{{- define "vgpu-webhook.givenLabels" -}}
{{- $top := index . 0 -}}
{{- $value := index . 1 -}}
{{- $own := list "helm.sh/chart" "vgpu-webhook.io/mapping" -}}
{{- range list "name" "instance" "component" "version" "managed-by" -}}
{{- $own = append $own (printf "app.kubernetes.io/%s" .) -}}
{{- end -}}
{{- range $label, $_ := index . 2 -}}
{{- if has $label $own -}}
{{- fail (printf "%s: the chart writes the label %s itself, and selects objects by it: remove it" $value $label) -}}
{{- end -}}
{{- if and (ne $value "commonLabels") (hasKey $top.Values.commonLabels $label) -}}
{{- fail (printf "%s: the label %s is in commonLabels, too: remove it from one of them" $value $label) -}}
{{- end -}}
{{- end -}}
{{- toYaml (index . 2) -}}
{{- end -}}

{{/* An image: (list image-values default-tag). */}}
{{- define "vgpu-webhook.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- $tag := default (index . 1) (include "vgpu-webhook.tag" $image) | required (printf "the image %s needs a tag or a digest" $image.repository) -}}
{{- printf "%s:%s" $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* The tag of an image, empty if it is null: a number of a file of values is a float64, which Go prints as 2.0261122e+07. */}}
{{- define "vgpu-webhook.tag" -}}
{{- if kindIs "float64" .tag }}{{ printf "%.0f" .tag }}{{ else if not (kindIs "invalid" .tag) }}{{ .tag }}{{ end -}}
{{- end -}}

{{/* The Secret that is mounted, unless the webhook maintains its own. */}}
{{- define "vgpu-webhook.certificateSecret" -}}
{{- if eq .Values.certificates.mode "certManager" -}}
{{- include "vgpu-webhook.named" (list . "tls") -}}
{{- else if eq .Values.certificates.mode "secret" -}}
{{- required "certificates.mode is secret: name a Secret with tls.crt, tls.key and ca.crt in certificates.secretName" .Values.certificates.secretName -}}
{{- end -}}
{{- end -}}

{{/* Seconds of a duration such as 1h30m. */}}
{{- define "vgpu-webhook.seconds" -}}
{{- $unit := dict "h" 3600 "m" 60 "s" 1 "ms" 0.001 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9]+" .) (get $unit (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Seconds until a pod is killed: never before it has drained. */}}
{{- define "vgpu-webhook.terminationGracePeriodSeconds" -}}
{{- $least := add (ceil .Values.drain.preStopSeconds) (ceil .Values.drain.graceSeconds) 15 -}}
{{- $seconds := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $seconds -}}
{{- add $least 5 -}}
{{- else if lt (int $seconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds %d is too short: drain.preStopSeconds, drain.graceSeconds and 15 s for reviews in flight make %d" (int $seconds) $least) -}}
{{- else -}}
{{- $seconds -}}
{{- end -}}
{{- end -}}

{{/* The service account's token, with an expiry of our choice, at the usual path. */}}
{{- define "vgpu-webhook.tokenVolume" -}}
- name: service-account
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: {{ int .Values.serviceAccount.tokenExpirationSeconds }}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]
{{- end -}}

{{- define "vgpu-webhook.tokenMount" -}}
- name: service-account
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{/* The increase of a counter: (list "metric{selector}" "15m"). `increase` alone begins at the second sample of a series: it misses
the first failure of a kind with a label of its own, and one before a replica's first scrape. */}}
{{- define "vgpu-webhook.gained" -}}
{{- $metric := index . 0 -}}
{{- $time := index . 1 -}}
(({{ $metric }} unless last_over_time({{ $metric }}[{{ $time }}] offset {{ $time }})) or increase({{ $metric }}[{{ $time }}]))
{{- end -}}
