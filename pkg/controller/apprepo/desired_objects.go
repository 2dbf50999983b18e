package apprepo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
)

// The bounds of what is taken of a Repo.
const (
	maxApps = 1000
	// maxVersions is how many versions of an application are taken: the newest.
	maxVersions = 20
	// maxDescription, maxLink, maxIcon and maxMaintainers bound what an index says for people.
	maxDescription, maxLink, maxIcon, maxMaintainers, maxText = 1024, 2048, 16 << 10, 10, 256
)

// wants are what an index has.
type wants struct {
	// apps are the wanted applications by the names of their objects, and versions all their versions.
	apps     map[string]*app
	versions map[string]*version
	// unclear are the names of applications some of whose versions can't be read: none of theirs is removed.
	unclear map[string]bool
	// bad names the entries that are left out, and why.
	bad []string
}

// app is an application that is to be there.
type app struct {
	// chart is its name in the index.
	chart  string
	latest string
	about  chart.About
}

// version is a version that is to be there.
type version struct {
	app, version, url, digest string
	created                   *metav1.Time
	about                     chart.About
}

// plan returns the applications and versions that an index has. It writes nothing.
func plan(repo *applicationv2.Repo, access *source.Access, index *chart.Index) (*wants, error) {
	if index.Len() > maxApps {
		return nil, &source.Failure{Reason: source.ReasonTooLarge,
			Message: fmt.Sprintf("the repository has %d charts: at most %d are taken", index.Len(), maxApps)}
	}
	w := &wants{apps: map[string]*app{}, versions: map[string]*version{}, unclear: map[string]bool{}}
	for entry := range index.Entries(func(string) bool { return true }) {
		if err := appstore.CheckName(entry.Name); err != nil {
			w.bad = append(w.bad, err.Error())
			continue
		}
		name := appstore.NameInRepo(repo.Name, entry.Name)
		switch is := w.apps[name]; {
		case len(name) > validation.LabelValueMaxLength:
			w.bad = append(w.bad, fmt.Sprintf("%s: with the name of the repository it has more than %d letters", entry.Name,
				validation.LabelValueMaxLength))
			continue
		case is != nil:
			w.bad = append(w.bad, fmt.Sprintf("%s: an application of this name is there for %s", entry.Name, is.chart))
			w.unclear[name] = true
			continue
		}
		w.add(name, &entry, access)
	}
	slices.Sort(w.bad)
	return w, nil
}

// add takes the newest versions of an entry.
func (w *wants) add(name string, entry *chart.Entry, access *source.Access) {
	for _, err := range entry.Errs {
		w.unclear[name] = true
		w.bad = append(w.bad, entry.Name+": "+err.Error())
	}
	slices.SortStableFunc(entry.Versions, func(a, b chart.Version) int { return chart.Compare(b.Version, a.Version) })
	taken := &app{chart: entry.Name}
	seen := map[string]bool{}
	for i := range entry.Versions {
		v := &entry.Versions[i]
		object := appstore.VersionName(name, v.Version)
		one, err := versionOf(name, entry.Name, v, access)
		switch {
		case err == nil && len(object) > validation.LabelValueMaxLength:
			err = fmt.Errorf("with the names of the repository and of the application it has more than %d letters",
				validation.LabelValueMaxLength)
		case err == nil && (seen[object] || w.versions[object] != nil):
			err = fmt.Errorf("it is there twice")
		}
		if err != nil {
			w.unclear[name] = true
			w.bad = append(w.bad, fmt.Sprintf("%s %.64q: %v", entry.Name, v.Version, err))
			continue
		}
		if seen[object] = true; len(seen) > maxVersions {
			break // the rest is older
		}
		w.versions[object] = one
		if taken.latest == "" {
			taken.latest, taken.about = v.Version, one.about
		}
		one.about.Icon = link(one.about.Icon) // an image is in the application alone, and not in each of its versions
	}
	if taken.latest != "" {
		w.apps[name] = taken
	}
}

func versionOf(app, entry string, v *chart.Version, access *source.Access) (*version, error) {
	if v.Name != entry {
		return nil, fmt.Errorf("its name is %.100q", v.Name)
	}
	if _, err := semver.NewVersion(v.Version); err != nil || len(v.Version) > validation.LabelValueMaxLength {
		return nil, fmt.Errorf("it is no semantic version, such as 1.2.3, with at most %d letters", validation.LabelValueMaxLength)
	}
	url, digest, err := access.Located(v)
	if err != nil {
		return nil, err
	}
	out := &version{app: app, version: v.Version, url: url, digest: digest, about: bounded(v.About())}
	if !v.Created.IsZero() {
		created := metav1.NewTime(v.Created.UTC().Truncate(1e9))
		out.created = &created
	}
	return out, nil
}

// bounded returns what pages may show of what an index says: texts of one line, and links that run nothing in a browser.
func bounded(is chart.About) chart.About {
	out := chart.About{Description: chart.Clip(is.Description, maxDescription), Home: link(is.Home)}
	if out.Icon = link(is.Icon); strings.HasPrefix(is.Icon, "data:image/") && len(is.Icon) <= maxIcon {
		out.Icon = is.Icon
	}
	for _, m := range is.Maintainers[:min(len(is.Maintainers), maxMaintainers)] {
		out.Maintainers = append(out.Maintainers, chart.Maintainer{
			Name: chart.Clip(m.Name, maxText), Email: chart.Clip(m.Email, maxText), URL: link(m.URL)})
	}
	return out
}

// link returns a URL of http or https, and "" for anything else.
func link(text string) string {
	if len(text) > maxLink || !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		return ""
	}
	return text
}
