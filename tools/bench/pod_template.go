package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// namespaces is how many namespaces the pods are in.
	namespaces = 10
	// seedLabel marks what belongs to the benchmark, namespaces and pods.
	seedLabel = "bench/seed"
	// quarterLabel has the values 0 to 3, each on a quarter of the pods.
	quarterLabel = "bench/quarter"
	// touchLabel is changed to see how fast a change shows.
	touchLabel = "bench/touch"
	// runningEvery says that one pod of so many is Running; the others are Pending.
	runningEvery = 16
)

func podNamespace(i int) string { return fmt.Sprintf("bench-%d", i%namespaces) }

func podName(i int) string { return fmt.Sprintf("shop-checkout-6f7d9c5b48-%05d", i) }

// newPod returns a pod like those of template engines: two containers with probes, environment, limits and mounts, about 5.6 KB of
// JSON once the API server has added its defaults. It is not scheduled, so that it costs its cluster nothing but its place in etcd. It
// has no owner: the garbage collector deletes pods whose owner does not exist.
func newPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      podName(i),
			Namespace: podNamespace(i),
			Labels: map[string]string{
				seedLabel:                      "true",
				quarterLabel:                   fmt.Sprint(i % 4),
				"app.kubernetes.io/name":       "checkout",
				"app.kubernetes.io/instance":   fmt.Sprintf("shop-%d", i%100),
				"app.kubernetes.io/version":    "v2.14.3",
				"app.kubernetes.io/component":  "backend",
				"app.kubernetes.io/part-of":    "shop",
				"app.kubernetes.io/managed-by": "Helm",
				"pod-template-hash":            "6f7d9c5b48",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape":              "true",
				"prometheus.io/port":                "9102",
				"prometheus.io/path":                "/metrics",
				"checksum/config":                   "0f1c4d6b8e1f2a7c9d3e5b6a8f0c2d4e6a8b0c1d3f5e7a9b1c3d5e7f9a0b2c4d",
				"kubectl.kubernetes.io/restartedAt": "2026-11-20T08:15:42Z",
				"kubesphere.io/creator":             "project-admin",
				"kubesphere.io/alias-name":          fmt.Sprintf("Checkout %d", i),
			},
		},
		Spec: podSpec(i),
	}
}

func podSpec(i int) corev1.PodSpec {
	no, user, grace := false, int64(10001), int64(45)
	return corev1.PodSpec{
		SchedulerName:                 "bench-nobody",
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &grace,
		NodeSelector:                  map[string]string{"kubernetes.io/os": "linux", "topology.kubernetes.io/region": "eu-central-1"},
		SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &user},
		Containers:                    []corev1.Container{mainContainer(i), metricsContainer()},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "shop-checkout-config"}}}},
			{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-checkout-tls"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		InitContainers: []corev1.Container{migrateContainer()},
		Affinity:       apart(),
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "checkout"}},
		}},
	}
}

func mainContainer(i int) corev1.Container {
	secret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shop-checkout-credentials"}, Key: key}}}
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return corev1.Container{
		Name:  "checkout",
		Image: "registry.example.com/shop/checkout:v2.14.3",
		Args:  []string{"--listen=:8080", "--config=/etc/checkout/config.yaml", "--log-format=json", "--shutdown-delay=15s"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "grpc", ContainerPort: 9090}},
		Env: []corev1.EnvVar{
			field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_IP", "status.podIP"),
			secret("DATABASE_PASSWORD", "database-password"), secret("PAYMENT_API_KEY", "payment-api-key"),
			{Name: "DATABASE_HOST", Value: "shop-postgresql-primary.shop-data.svc.cluster.local"},
			{Name: "REDIS_ADDRESS", Value: "shop-redis-master.shop-data.svc.cluster.local:6379"},
			{Name: "KAFKA_BROKERS", Value: "kafka-0.kafka.shop-data.svc:9092,kafka-1.kafka.shop-data.svc:9092"},
			{Name: "FEATURE_FLAGS", Value: "new-basket,express-checkout,gift-cards"},
			{Name: "SHARD", Value: fmt.Sprint(i % 64)},
		},
		Resources:      resources("250m", "256Mi", "1", "512Mi"),
		ReadinessProbe: probe("/healthz/ready", 5*time.Second),
		LivenessProbe:  probe("/healthz/live", 20*time.Second),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/checkout", ReadOnly: true},
			{Name: "tls", MountPath: "/etc/checkout-tls", ReadOnly: true},
			{Name: "tmp", MountPath: "/tmp"},
		},
		SecurityContext: locked(),
	}
}

func migrateContainer() corev1.Container {
	return corev1.Container{
		Name:            "migrate",
		Image:           "registry.example.com/shop/checkout:v2.14.3",
		Command:         []string{"/bin/checkout", "migrate"},
		Args:            []string{"--config=/etc/checkout/config.yaml", "--timeout=120s"},
		Resources:       resources("50m", "64Mi", "200m", "128Mi"),
		VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/checkout", ReadOnly: true}},
		SecurityContext: locked(),
	}
}

// apart asks for another node than that of the next pod of the same application.
func apart() *corev1.Affinity {
	same := &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "checkout"}}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight:          100,
			PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: same, TopologyKey: corev1.LabelHostname},
		}},
	}}
}

func metricsContainer() corev1.Container {
	return corev1.Container{
		Name:            "metrics-proxy",
		Image:           "registry.example.com/platform/metrics-proxy:1.9.0",
		Args:            []string{"--upstream=http://127.0.0.1:8080/metrics", "--listen=:9102"},
		Ports:           []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9102}},
		Resources:       resources("10m", "32Mi", "100m", "64Mi"),
		SecurityContext: locked(),
	}
}

func resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return corev1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func probe(path string, delay time.Duration) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}},
		InitialDelaySeconds: int32(delay.Seconds()),
		TimeoutSeconds:      2,
	}
}

func locked() *corev1.SecurityContext {
	yes, no := true, false
	return &corev1.SecurityContext{
		ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// runningStatus is the status of a pod whose containers run.
func runningStatus(p *corev1.Pod, now time.Time) corev1.PodStatus {
	since := metav1.NewTime(now)
	st := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &since, QOSClass: p.Status.QOSClass}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		st.Conditions = append(st.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	started := true
	for _, c := range p.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		})
	}
	return st
}
