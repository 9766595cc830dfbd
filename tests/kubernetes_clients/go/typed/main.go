// Objects written by client-go's typed client, whose bodies are Protobuf.
//
//	typed -server http://127.0.0.1:7450
//
// It writes each of them as a line of JSON, as Go has it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"time"

	apps "k8s.io/api/apps/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const namespace = "default"

func main() {
	server := flag.String("server", "", "the server's URL")
	flag.Parse()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: *server,
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	})
	check(err)
	ctx, create := context.Background(), meta.CreateOptions{}
	lines := json.NewEncoder(os.Stdout)

	pod := pod()
	check(lines.Encode(pod))
	pods := client.CoreV1().Pods(namespace)
	created, err := pods.Create(ctx, pod, create)
	check(err)
	created.Status = core.PodStatus{
		Phase:     core.PodRunning,
		StartTime: &meta.Time{Time: time.Unix(1_000_000_000, 0)},
		ContainerStatuses: []core.ContainerStatus{{
			Name:  "c",
			State: core.ContainerState{Running: &core.ContainerStateRunning{}},
		}},
	}
	status := created.DeepCopy()
	updated, err := pods.UpdateStatus(ctx, created, meta.UpdateOptions{})
	check(err)
	if updated.Status.Phase != status.Status.Phase {
		log.Fatalf("the status is %v", updated.Status)
	}
	updated.Labels = map[string]string{"updated": "yes"}
	_, err = pods.Update(ctx, updated, meta.UpdateOptions{})
	check(err)
	_, err = pods.Update(ctx, status, meta.UpdateOptions{})
	expect(errors.IsConflict(err), err)

	lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "l"}}
	seconds, holder := int32(15), "me"
	lease.Spec.LeaseDurationSeconds, lease.Spec.HolderIdentity = &seconds, &holder
	lease.Spec.RenewTime = &meta.MicroTime{Time: time.Unix(1_000_000_000, 123_456_000)}
	check(lines.Encode(lease))
	_, err = client.CoordinationV1().Leases(namespace).Create(ctx, lease, create)
	check(err)

	revision := &apps.ControllerRevision{ObjectMeta: meta.ObjectMeta{Name: "r"}, Revision: 3}
	revision.Data = runtime.RawExtension{Raw: []byte(`{"spec":{"any":[1,null,"x"]}}`)}
	check(lines.Encode(revision))
	_, err = client.AppsV1().ControllerRevisions(namespace).Create(ctx, revision, create)
	check(err)

	sets := client.AppsV1().ReplicaSets(namespace)
	labels := map[string]string{"app": "web"}
	set := &apps.ReplicaSet{ObjectMeta: meta.ObjectMeta{Name: "s"}}
	set.Spec.Selector = &meta.LabelSelector{MatchLabels: labels}
	set.Spec.Template = core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: pod.Spec}
	_, err = sets.Create(ctx, set, create)
	check(err)
	scale, err := sets.GetScale(ctx, "s", meta.GetOptions{})
	check(err)
	scale.Spec.Replicas = 3
	scaled, err := sets.UpdateScale(ctx, "s", scale, meta.UpdateOptions{})
	check(err)
	if scaled.Spec.Replicas != 3 || scaled.Status.Selector != "app=web" {
		log.Fatalf("the scale is %v", scaled)
	}
	_, err = sets.UpdateScale(ctx, "s", scale, meta.UpdateOptions{})
	expect(errors.IsConflict(err), err)

	// Options of a deletion are Protobuf, too.
	maps := client.CoreV1().ConfigMaps(namespace)
	kept, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "m"}}, create)
	check(err)
	other := "00000000-0000-0000-0000-000000000000"
	err = maps.Delete(ctx, "m", *meta.NewPreconditionDeleteOptions(other))
	expect(errors.IsConflict(err), err)
	check(maps.Delete(ctx, "m", *meta.NewPreconditionDeleteOptions(string(kept.UID))))
	check(maps.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{}))
}

func pod() *core.Pod {
	yes, user, mode := true, int64(1)<<40, int32(0o644)
	key := core.SecretKeySelector{LocalObjectReference: core.LocalObjectReference{Name: "s"}, Key: "k"}
	debug := core.EphemeralContainerCommon{Name: "debug", Image: "shell:1"}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web"}},
		Spec: core.PodSpec{
			SecurityContext: &core.PodSecurityContext{
				RunAsUser: &user, RunAsNonRoot: &yes, SupplementalGroups: []int64{0, -1, 7},
			},
			Volumes: []core.Volume{{
				Name: "v",
				VolumeSource: core.VolumeSource{
					Secret: &core.SecretVolumeSource{SecretName: "s", DefaultMode: &mode},
				},
			}, {
				Name:         "e",
				VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}},
			}},
			Containers: []core.Container{{
				Name: "c", Image: "nginx:1",
				Env: []core.EnvVar{{Name: "A", ValueFrom: &core.EnvVarSource{SecretKeyRef: &key}}},
				Resources: core.ResourceRequirements{Limits: core.ResourceList{
					core.ResourceCPU:    resource.MustParse("100m"),
					core.ResourceMemory: resource.MustParse("1Gi"),
				}},
				LivenessProbe: &core.Probe{
					ProbeHandler: core.ProbeHandler{HTTPGet: &core.HTTPGetAction{
						Path: "/", Port: intstr.FromString("http"),
					}},
					PeriodSeconds: 3,
				},
				ReadinessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{
					TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(0)},
				}},
				VolumeMounts: []core.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}},
			}},
			EphemeralContainers: []core.EphemeralContainer{{
				EphemeralContainerCommon: debug, TargetContainerName: "c",
			}},
			Overhead: core.ResourceList{core.ResourceCPU: {}},
		},
	}
}

func expect(is bool, err error) {
	if !is {
		log.Fatalf("unexpected: %v", err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
