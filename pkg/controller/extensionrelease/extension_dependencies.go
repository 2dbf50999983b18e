package extensionrelease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// needsOf returns the extensions that a version needs.
func needsOf(v *v1alpha1.ExtensionVersion) (out []v1alpha1.ExternalDependency) {
	for _, d := range v.Spec.ExternalDependencies {
		if d.Required && (d.Type == "" || d.Type == "extension") {
			out = append(out, d)
		}
	}
	return out
}

func namesOf(v *v1alpha1.ExtensionVersion) (out []string) {
	for _, d := range needsOf(v) {
		out = append(out, d.Name)
	}
	return out
}

// needs returns the names of the extensions that a version of another one needs; none where there is no such version.
func needs(ctx context.Context, r client.Reader, extension, version string) ([]string, error) {
	v, name := &v1alpha1.ExtensionVersion{}, v1alpha1.ExtensionVersionName(extension, version)
	if err := r.Get(ctx, client.ObjectKey{Name: name}, v); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read what the extension %s needs: %w", extension, err)
	}
	return namesOf(v), nil
}

// Unmet says of each extension that a version needs, and that is not installed in a version that suits and in use, why it does not do.
func Unmet(ctx context.Context, r client.Reader, extension string, v *v1alpha1.ExtensionVersion) (unmet []string, err error) {
	for _, d := range needsOf(v) {
		other := &v1alpha1.InstallPlan{}
		err := r.Get(ctx, client.ObjectKey{Name: d.Name}, other)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the plan of %s, which %s needs: %w", d.Name, extension, err)
		}
		switch {
		case err != nil || other.Status.Version == "":
			unmet = append(unmet, fmt.Sprintf("%s %s is not installed", d.Name, d.Version))
		case !chart.Allows(d.Version, other.Status.Version):
			unmet = append(unmet, fmt.Sprintf("%s is installed in version %s, and %s is needed", d.Name, other.Status.Version, d.Version))
		case !other.Spec.Enabled:
			unmet = append(unmet, d.Name+" is disabled")
		case !other.DeletionTimestamp.IsZero():
			unmet = append(unmet, d.Name+" is being removed")
		}
	}
	if len(unmet) == 0 {
		return nil, nil
	}
	if round := circle(ctx, r, extension, v); len(round) > 0 {
		unmet = append(unmet, "they need one another, so that none of them can be installed first: "+strings.Join(round, " needs "))
	}
	return unmet, nil
}

// circle returns the extensions by whose plans one needs itself, from it to it; none where a version of it does not.
func circle(ctx context.Context, r client.Reader, extension string, v *v1alpha1.ExtensionVersion) []string {
	seen := map[string]bool{}
	var from func(name string, needed []string) []string
	from = func(name string, needed []string) []string {
		for _, next := range needed {
			if next == extension {
				return []string{name, next}
			}
			plan := &v1alpha1.InstallPlan{}
			if seen[next] || r.Get(ctx, client.ObjectKey{Name: next}, plan) != nil {
				continue
			}
			seen[next] = true
			of, err := needs(ctx, r, next, plan.Spec.Extension.Version)
			if err != nil {
				continue
			}
			if rest := from(next, of); len(rest) > 0 {
				return append([]string{name}, rest...)
			}
		}
		return nil
	}
	return from(extension, namesOf(v))
}

// Requiring returns the installed extensions that need one. Where such a one is being removed, too, and is needed in turn by the extension
// itself, it does not count: of those that need one another each would wait for the others.
func Requiring(ctx context.Context, r client.Reader, extension string) ([]string, error) {
	plans := &v1alpha1.InstallPlanList{}
	if err := r.List(ctx, plans); err != nil {
		return nil, fmt.Errorf("list the plans that may need the extension %s: %w", extension, err)
	}
	needed, going := map[string][]string{}, map[string]bool{}
	for i := range plans.Items {
		p := &plans.Items[i]
		if p.Status.Version == "" { // it is not installed
			continue
		}
		of, err := needs(ctx, r, p.Name, p.Status.Version)
		if err != nil {
			return nil, err
		}
		needed[p.Name], going[p.Name] = of, !p.DeletionTimestamp.IsZero()
	}
	reached := map[string]bool{}
	for next := slices.Clone(needed[extension]); len(next) > 0; {
		name := next[0]
		if next = next[1:]; going[name] && !reached[name] {
			reached[name] = true
			next = append(next, needed[name]...)
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if name != extension && !reached[name] && slices.Contains(needed[name], extension) {
			out = append(out, name)
		}
	}
	return out, nil
}
