package kit

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// Log writes what is known of the installation of an extension: how far it is, what keeps it from going on, and the log of its last
// operation.
func (i *Installation) Log(ctx context.Context, to io.Writer, name string) error {
	plan := &v1alpha1.InstallPlan{}
	if found, err := i.get(ctx, plans, "", name, plan); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("there is no InstallPlan %s: nobody has installed the extension", name)
	}
	s := &plan.Status
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s: %s\n", name, plan.Spec.Extension.Version, s.State)
	for _, c := range s.Conditions {
		if c.Status != metav1.ConditionTrue {
			fmt.Fprintf(&out, "  %s: %s (%s)\n", c.Type, c.Message, c.Reason)
		}
	}
	log, err := i.log(ctx, s)
	out.WriteString(log)
	if _, errWrite := io.WriteString(to, out.String()); err == nil {
		err = errWrite
	}
	return err
}

// log returns the log of the last operation, or why there is none.
func (i *Installation) log(ctx context.Context, s *v1alpha1.InstallPlanStatus) (string, error) {
	if s.TargetNamespace == "" || s.ReleaseName == "" {
		return "No operation has begun yet, so there is no log.\n", nil
	}
	name, m := s.ReleaseName+"-log", &corev1.ConfigMap{}
	found, err := i.get(ctx, configMaps, s.TargetNamespace, name, m)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the log, the ConfigMap %s of the namespace %s: %w", name, s.TargetNamespace, err)
	case !found:
		return fmt.Sprintf("No operation has ended yet: its log will be the ConfigMap %s of the namespace %s.\n", name, s.TargetNamespace), nil
	}
	return "The log of the last operation that has ended:\n" + m.Data["log"], nil
}
