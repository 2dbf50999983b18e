package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// The bounds of what is read of a registry.
const (
	// perPage and maxPages bound a list.
	perPage, maxPages = 1000, 20
	// maxRepositories bounds the repositories below a path, maxTags the versions of one of them, and maxVersions those of all that are noted.
	maxRepositories, maxTags, maxVersions = 5000, 20_000, 100_000
	// maxOthers is how many of the highest versions of a repository may be no chart before its other versions are not tried.
	maxOthers = 5
	// parallel is how many repositories are read at once.
	parallel = 4
)

// registryReader reads what a registry has below a path.
type registryReader struct {
	*registry
	depth int
	since map[content]manifest

	mu    sync.Mutex
	now   map[content]manifest
	noted int
}

// listing is a page of a list.
type listing struct {
	Repositories []string `json:"repositories"`
	Tags         []string `json:"tags"`
}

// tagged is a tag that is a version. Helm writes the + of one as _.
type tagged struct{ tag, version string }

func (c *Client) registryCatalogue(ctx context.Context, a *Access, depth int, since State) (*chart.Index, State, error) {
	to, err := c.registry(a, a.base)
	if err != nil {
		return nil, since, err
	}
	defer to.close()
	r := &registryReader{registry: to, depth: depth, since: since.manifests, now: map[content]manifest{}}
	entries, err := r.read(ctx, strings.Trim(a.base.Path, "/"))
	if err != nil { // what was read of it need not be read again
		known := maps.Clone(r.now)
		maps.Copy(known, since.manifests)
		if len(known) > maxRequests {
			known = nil
		}
		return nil, State{manifests: known}, err
	}
	return chart.NewIndex(entries), State{manifests: r.now}, nil
}

// read returns the charts below a path, or at it where the registry names none below.
func (r *registryReader) read(ctx context.Context, below string) ([]chart.Entry, error) {
	repositories, err := r.below(ctx, below)
	if err != nil {
		return nil, err
	}
	if len(repositories) == 0 {
		if below == "" {
			return nil, r.namesNothing()
		}
		repositories = []string{below}
	}
	alone := repositories[0] == below && len(repositories) == 1
	found := make([]*chart.Entry, len(repositories))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, repository := range repositories {
		group.Go(func() error {
			entry, err := r.repository(reading, repository)
			var failed *Failure
			switch {
			case err == nil:
				found[i] = entry
			case alone || !errors.As(err, &failed):
				return err
			case failed.Reason == ReasonNotFound: // registries go on naming repositories that are empty
			case isOfEntry(err):
				found[i] = &chart.Entry{Name: path.Base(repository), Errs: []error{err}}
			default:
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if alone && found[0] == nil {
		return nil, failure(ReasonInvalid,
			"there is no chart of Helm at the path of spec.url, and %s names nothing below it", r.name.RegistryStr())
	}
	return merge(repositories, found), nil
}

// probeRegistry returns an error unless a registry names something at or below a path.
func (c *Client) probeRegistry(ctx context.Context, a *Access) error {
	to, err := c.registry(a, a.base)
	if err != nil {
		return err
	}
	defer to.close()
	at := strings.Trim(a.base.Path, "/")
	repositories, err := (&registryReader{registry: to}).below(ctx, at)
	switch {
	case err != nil || len(repositories) > 0:
		return err
	case at == "":
		return to.namesNothing()
	}
	s, err := to.pull(ctx, at)
	if err != nil {
		return err
	}
	tags, err := s.versions(ctx, at)
	if err == nil && len(tags) == 0 {
		err = failure(ReasonInvalid, "the registry has no versions of a chart at the path of spec.url, and names nothing below it")
	}
	return err
}

// namesNothing is the failure of a registry that shows no list of its repositories.
func (r *registry) namesNothing() error {
	return failure(ReasonUnsupported, "%s names no repositories: spec.url has to have the path of one", r.name.RegistryStr())
}

// merge returns one index of all charts by name. A name that two repositories have is left out: otherwise a writer of one of them could
// replace the other's chart.
func merge(repositories []string, found []*chart.Entry) []chart.Entry {
	by := map[string]*chart.Entry{}
	of := map[string]string{}
	for i, entry := range found {
		if entry == nil {
			continue
		}
		if other, ok := of[entry.Name]; ok {
			both := fmt.Errorf("both %s and %s would be it: spec.url can name one", other, repositories[i])
			by[entry.Name] = &chart.Entry{Name: entry.Name, Errs: []error{both}}
			continue
		}
		by[entry.Name], of[entry.Name] = entry, repositories[i]
	}
	out := make([]chart.Entry, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

// below returns the repositories at and below a path, by the registry's list; none if the registry has no list, or does not show it.
func (r *registryReader) below(ctx context.Context, at string) ([]string, error) {
	var out []string
	s, err := r.login(ctx, "registry:catalog:*")
	if err == nil {
		err = s.pages(ctx, "/v2/_catalog", "the list of its repositories", func(page *listing) error {
			for _, one := range page.Repositories {
				within := at == "" || one == at || strings.HasPrefix(one, at+"/")
				if !within || checkRepository("", one) != nil {
					continue
				}
				if out = append(out, one); len(out) > maxRepositories {
					return tooMuch(r.name.RegistryStr(), maxRepositories, "repositories below the path")
				}
			}
			return nil
		})
	}
	var refused *refusal
	if errors.As(err, &refused) && hasNoCatalogue(refused.code) {
		return nil, nil
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

func hasNoCatalogue(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return code == http.StatusNotImplemented || code >= 400 && code < 500
}

// pages reads a list (OCI distribution specification 1.1). Of the link to the next page only the query is used, so that it can't lead
// elsewhere.
func (s *session) pages(ctx context.Context, path, what string, take func(*listing) error) error {
	query := "n=" + strconv.Itoa(perPage)
	for range maxPages {
		header, raw, err := s.request(ctx, http.MethodGet, path, query, maxManifest, what)
		if err != nil {
			return err
		}
		page := &listing{}
		if json.Unmarshal(raw, page) != nil {
			return failure(ReasonInvalid, "%s is no JSON of one", what)
		}
		if err := take(page); err != nil {
			return err
		}
		next, ok := nextQuery(header.Get("Link"))
		if !ok || len(page.Repositories)+len(page.Tags) == 0 {
			return nil
		}
		query = next
	}
	return failure(ReasonTooLarge, "%s has more than %d pages", what, maxPages)
}

func nextQuery(link string) (string, bool) {
	target, params, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !ok || !strings.Contains(params, `rel="next"`) && !strings.Contains(params, "rel=next") {
		return "", false
	}
	u, err := url.Parse(target)
	if err != nil || u.RawQuery == "" {
		return "", false
	}
	return u.RawQuery, true
}

// repository returns the versions of a chart; nil where a repository has none: it may be one of images.
func (r *registryReader) repository(ctx context.Context, repository string) (*chart.Entry, error) {
	s, err := r.pull(ctx, repository)
	if err != nil {
		return nil, err
	}
	tags, err := s.versions(ctx, repository)
	if err != nil {
		return nil, err
	}
	entry := &chart.Entry{Name: path.Base(repository)}
	taken, others := 0, 0
	for _, t := range tags {
		if taken < r.depth && others == maxOthers {
			if len(entry.Versions) > 0 {
				entry.Errs = append(entry.Errs, fmt.Errorf("after %d versions that are none of this chart, it was not read on", others))
			}
			break
		}
		v := chart.Version{Name: entry.Name, Version: t.version,
			URLs: []string{schemeOCI + "://" + r.host + "/" + repository + ":" + t.tag}}
		if taken < r.depth {
			is, err := r.manifestOf(ctx, s, reference{repository, t.tag})
			if err == nil && is.chart && is.version != t.version {
				err = failure(ReasonInvalid, "its chart is that of version %.64q", is.version)
			}
			if err != nil && !isOfEntry(err) {
				return nil, err
			}
			if err != nil {
				entry.Errs = append(entry.Errs, fmt.Errorf("%s: %w", t.tag, err))
			}
			if err != nil || !is.chart {
				others++
				continue
			}
			v.SetAbout(is.about)
			if v.Name, v.Digest, v.Created = is.name, is.digest, is.created; is.name == entry.Name && chart.CheckVersion(t.version) == nil {
				taken++
			} else { // reading the entry reports it
				others++
			}
		}
		entry.Versions = append(entry.Versions, v)
		if err := r.note(); err != nil {
			return nil, err
		}
	}
	if len(entry.Versions)+len(entry.Errs) == 0 {
		return nil, nil //nolint:nilnil // nil is none
	}
	return entry, nil
}

// versions returns the tags of a repository that are versions, the highest first.
func (s *session) versions(ctx context.Context, repository string) ([]tagged, error) {
	var out []tagged
	err := s.pages(ctx, "/v2/"+repository+"/tags/list", "the tags of "+repository, func(page *listing) error {
		for _, tag := range page.Tags {
			version := strings.ReplaceAll(tag, "_", "+")
			if _, err := semver.StrictNewVersion(version); err == nil && isTag(tag) {
				out = append(out, tagged{tag, version})
			}
		}
		if len(out) > maxTags {
			return failure(ReasonTooLarge, "%s has more than %d versions", repository, maxTags)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b tagged) int {
		return cmp.Or(chart.Compare(b.version, a.version), strings.Compare(a.tag, b.tag))
	})
	return slices.Compact(out), err
}

// isOfEntry reports whether an error concerns one chart alone, so that the others can still be read.
func isOfEntry(err error) bool {
	var failed *Failure
	if !errors.As(err, &failed) || errors.Is(err, errTooMuch) {
		return false
	}
	return slices.Contains([]string{ReasonUnauthorized, ReasonInvalid, ReasonDigest, ReasonTooLarge}, failed.Reason)
}

// note counts a version that is noted.
func (r *registryReader) note() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted++; r.noted > maxVersions {
		return tooMuch(r.name.RegistryStr(), maxVersions, "versions of charts below the path")
	}
	return nil
}

// manifestOf returns the manifest of a tag. One whose digest has not changed is not read again.
func (r *registryReader) manifestOf(ctx context.Context, s *session, at reference) (manifest, error) {
	digest, err := s.digestOf(ctx, at)
	if err != nil {
		return none(err)
	}
	if digest != "" {
		at.version = digest
	}
	of := content{at.repository, digest}
	is, ok := r.since[of]
	if !ok || digest == "" {
		read, err := s.manifest(ctx, at)
		if err != nil {
			return none(err)
		}
		is = *read
	}
	if digest != "" {
		r.mu.Lock()
		r.now[of] = is
		r.mu.Unlock()
	}
	return is, nil
}

// none returns an empty manifest if the registry has no manifest of the requested type under a tag, and otherwise the error.
func none(err error) (manifest, error) {
	var failed *Failure
	if errors.As(err, &failed) && failed.Reason == ReasonNotFound {
		return manifest{}, nil
	}
	return manifest{}, err
}
