package repository

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
)

const (
	// maxExtensions bounds the extensions of a repository, and maxVersions the versions of one with a depth of 0.
	maxExtensions, maxVersions = 2000, 200
	usualDepth                 = 3
)

// wants are what an index has.
type wants struct {
	// versions are the wanted ones by the names of their objects.
	versions map[string]*wanted
	// unclear are the extensions some of whose versions can't be read: none of theirs is removed.
	unclear map[string]bool
	// lower are the names of versions that the repository has, and which are beyond the depth.
	lower map[string]bool
	// there are the Repositories that there are.
	there map[string]bool
}

// wanted is a version that is to be there.
type wanted struct {
	extension, version, url, digest string
	created                         *metav1.Time
}

// depthOf returns how many versions of each extension are taken.
func depthOf(s *v1alpha1.RepositorySpec) int {
	if s.Depth == nil {
		return usualDepth
	}
	if *s.Depth <= 0 || *s.Depth > maxVersions {
		return maxVersions
	}
	return *s.Depth
}

// plan returns which versions an index has, and names the entries that are left out. It writes nothing.
func (r *Reconciler) plan(ctx context.Context, repository *v1alpha1.Repository, access *source.Access,
	index *chart.Index, depth int) (*wants, []string, error) {
	if index.Len() > maxExtensions {
		return nil, nil, &source.Failure{Reason: source.ReasonTooLarge,
			Message: fmt.Sprintf("the repository has %d charts: at most %d are taken", index.Len(), maxExtensions)}
	}
	owners, there, err := r.owners(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := &wants{versions: map[string]*wanted{}, unclear: map[string]bool{}, lower: map[string]bool{}, there: there}
	var bad []string
	for entry := range index.Entries(func(string) bool { return true }) {
		if err := chart.CheckName(entry.Name); err != nil {
			bad = append(bad, err.Error())
			continue
		}
		if owner, ok := owners[entry.Name]; ok && owner != repository.Name {
			if owner == "" {
				owner = "there without a repository"
			} else {
				owner = "of the repository " + owner
			}
			bad = append(bad, entry.Name+": an extension of this name is "+owner)
			continue
		}
		for _, err := range entry.Errs {
			out.unclear[entry.Name] = true
			bad = append(bad, entry.Name+": "+err.Error())
		}
		bad = append(bad, out.add(&entry, access, depth)...)
	}
	slices.Sort(bad)
	return out, bad, nil
}

// add takes the highest versions of an entry.
func (w *wants) add(entry *chart.Entry, access *source.Access, depth int) (bad []string) {
	slices.SortStableFunc(entry.Versions, func(a, b chart.Version) int { return chart.Compare(b.Version, a.Version) })
	taken := 0
	for i := range entry.Versions {
		v := &entry.Versions[i]
		one, err := wantedOf(entry.Name, v, access)
		object := v1alpha1.ExtensionVersionName(entry.Name, v.Version)
		switch {
		case err != nil:
			w.unclear[entry.Name] = true
			bad = append(bad, fmt.Sprintf("%s %.64q: %v", entry.Name, v.Version, err))
		case w.versions[object] != nil || w.lower[object]:
			bad = append(bad, fmt.Sprintf("%s %s: it is there twice", entry.Name, v.Version))
		case taken == depth:
			w.lower[object] = true
		default:
			w.versions[object] = one
			taken++
		}
	}
	return bad
}

func wantedOf(extension string, v *chart.Version, access *source.Access) (*wanted, error) {
	if v.Name != extension {
		return nil, fmt.Errorf("its name is %.100q", v.Name)
	}
	if err := chart.CheckVersion(v.Version); err != nil {
		return nil, err
	}
	url, digest, err := access.Located(v)
	if err != nil {
		return nil, err
	}
	out := &wanted{extension: extension, version: v.Version, url: url, digest: digest}
	if !v.Created.IsZero() {
		created := metav1.NewTime(v.Created.UTC().Truncate(1e9))
		out.created = &created
	}
	return out, nil
}

// owners returns the Repository that each extension is of, of those that are there; "" is for one that was made without a Repository. It
// reads without a cache: of two Repositories that are read one after the other, the second one has to see what the first one made.
func (r *Reconciler) owners(ctx context.Context) (owners map[string]string, there map[string]bool, err error) {
	list := func(kind string) (*metav1.PartialObjectMetadataList, error) {
		out := &metav1.PartialObjectMetadataList{}
		out.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := r.live.List(ctx, out); err != nil {
			return nil, fmt.Errorf("list what there is of the kind %s: %w", kind, err)
		}
		return out, nil
	}
	there, owners = map[string]bool{"": true}, map[string]string{}
	repositories, err := list("Repository")
	if err != nil {
		return nil, nil, err
	}
	for i := range repositories.Items {
		there[repositories.Items[i].Name] = true
	}
	versions, err := list("ExtensionVersion")
	if err != nil {
		return nil, nil, err
	}
	for i := range versions.Items {
		labels := versions.Items[i].Labels
		if of := labels[v1alpha1.LabelRepository]; there[of] {
			owners[labels[v1alpha1.LabelExtension]] = of
		}
	}
	extensions, err := list("Extension")
	if err != nil {
		return nil, nil, err
	}
	for i := range extensions.Items { // where both are there and differ, this one was first
		e := &extensions.Items[i]
		if of := e.Labels[v1alpha1.LabelRepository]; there[of] {
			owners[e.Name] = of
		}
	}
	return owners, there, nil
}

// apply writes the versions that are missing, or other ones.
func (r *Reconciler) apply(ctx context.Context, repository *v1alpha1.Repository, w *wants, bad []string) (outcome, error) {
	out := outcome{bad: bad}
	for _, name := range slices.Sorted(maps.Keys(w.versions)) {
		one := w.versions[name]
		is := &v1alpha1.ExtensionVersion{}
		err := r.client.Get(ctx, client.ObjectKey{Name: name}, is)
		if client.IgnoreNotFound(err) != nil {
			return out, fmt.Errorf("read the ExtensionVersion %s: %w", name, err)
		}
		if err != nil {
			is = &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
			one.onto(is, repository.Name)
			if err := r.client.Create(ctx, is); err != nil {
				return out, fmt.Errorf("create the ExtensionVersion %s: %w", name, err)
			}
			out.changed = true
			continue
		}
		// Nobody else's object becomes this repository's for its name: that is made of two texts.
		of := is.Labels[v1alpha1.LabelRepository]
		if is.Labels[v1alpha1.LabelExtension] != one.extension || of != repository.Name && w.there[of] {
			out.bad = append(out.bad, fmt.Sprintf("%s %s: there is an ExtensionVersion %s, which is not of this repository", one.extension,
				one.version, name))
			continue
		}
		before := is.DeepCopy()
		one.onto(is, repository.Name)
		if equality.Semantic.DeepEqual(before, is) {
			continue
		}
		if err := r.client.Patch(ctx, is, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return out, fmt.Errorf("change the ExtensionVersion %s: %w", name, err)
		}
		out.changed = true
	}
	return out, nil
}

// onto writes what an index says into an object. What its chart says stays until that is read.
func (one *wanted) onto(v *v1alpha1.ExtensionVersion, repository string) {
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	v.Labels[v1alpha1.LabelExtension], v.Labels[v1alpha1.LabelRepository] = one.extension, repository
	s := &v.Spec
	// Without a digest in the index, the one of the first chart that was read there counts.
	if one.digest != "" || s.ChartURL != one.url {
		s.Digest = one.digest
	}
	s.Version, s.Repository, s.ChartURL, s.ChartDataRef = one.version, repository, one.url, nil
	if one.created != nil && !one.created.Equal(s.Created) {
		s.Created = one.created
	}
	meta.RemoveStatusCondition(&v.Status.Conditions, v1alpha1.ConditionOrphaned)
}
