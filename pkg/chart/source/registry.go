package source

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	schemeOCI = "oci"
	// mediaManifest is the media type of manifests, and mediaConfig the one of the config that says that a manifest is a Helm chart.
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.cncf.helm.config.v1+json"
	// maxRequests bounds the requests of one read, redirects and logins included.
	maxRequests = 20_000
	// maxManifest bounds manifests and pages of lists, and maxConfig what describes a chart, in bytes.
	maxManifest, maxConfig = 4 << 20, 1 << 20
	// maxRepository bounds the names of repositories and charts.
	maxRepository = 255
	sha256Prefix  = "sha256:"
)

var (
	// mediaChart are the media types of packed charts: Helm's present one and its former one.
	mediaChart = []string{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip"}
	// The names of the OCI distribution specification. No other text gets into the path of a request.
	isRepository = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`).MatchString
	isTag        = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`).MatchString
	isSHA256     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString
)

// checkRepository returns an error if the path of a URL is no name of a repository in a registry.
func checkRepository(field, path string) error {
	if len(path) > maxRepository || !isRepository(path) {
		return failure(ReasonInvalid, "%s: its path is no name of a repository in a registry, of lower case letters, digits and . _ - /", field)
	}
	return nil
}

// reference is the manifest of a chart: a tag of a repository, or the digest of the manifest.
type reference struct{ repository, version string }

func parseReference(field string, u *url.URL) (reference, error) {
	path, digest, pinned := strings.Cut(strings.TrimPrefix(u.Path, "/"), "@")
	repository, tag, tagged := strings.Cut(path, ":")
	if err := checkRepository(field, repository); err != nil {
		return reference{}, err
	}
	switch {
	case tagged && !isTag(tag), pinned && !isSHA256(digest), !tagged && !pinned, u.RawQuery != "", u.ForceQuery, u.RawPath != "":
		return reference{}, failure(ReasonInvalid,
			"%s: a chart in a registry is oci://<registry>/<repository>:<version>, or ends in @sha256:<digest>", field)
	case pinned:
		return reference{repository, digest}, nil
	}
	return reference{repository, tag}, nil
}

var (
	errPlain   = errors.New("the registry answers without TLS")
	errSite    = errors.New("the registry asks for the credentials at another site")
	errTooMuch = errors.New("the registry has more than is read of one")
)

func tooMuch(host string, most int, what string) error {
	f := failure(ReasonTooLarge, "%s has more than %d %s", host, most, what)
	f.Cause = errTooMuch
	return f
}

// guard is the transport to a registry. Logins and redirects pass it too, so that its bounds hold for them.
type guard struct {
	base *http.Transport
	// own is the transport to the registry itself, with the client certificate; nil without one.
	own      *http.Transport
	host     string
	insecure bool
	requests atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme != "https" && !g.insecure:
		return nil, errPlain
	case g.requests.Add(1) > maxRequests:
		return nil, errTooMuch
	case r.Header.Get("Authorization") != "" && !egress.SameSite(g.host, r.URL.Host):
		return nil, errSite
	}
	out := r.Clone(r.Context())
	out.Header.Del("Referer")
	if g.own != nil && out.URL.Scheme == "https" && hostport(out.URL) == hostport(&url.URL{Scheme: schemeOCI, Host: g.host}) {
		return g.own.RoundTrip(out)
	}
	return g.base.RoundTrip(out)
}

// registry is a container registry during one read.
type registry struct {
	access *Access
	// host is its name for users, which may differ from the host of its API (docker.io).
	host      string
	name      name.Registry
	account   authn.Authenticator
	transport *guard
}

// registry returns the registry at the host of a URL. Its transport has to be closed.
func (c *Client) registry(a *Access, at *url.URL) (*registry, error) {
	var options []name.Option
	if a.insecure {
		options = append(options, name.Insecure)
	}
	reg, err := name.NewRegistry(at.Host, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, failure(ReasonInvalid, "%.253q is not the address of a registry", at.Host)
	}
	o := c.egress
	o.RootCAs, o.SkipVerify = a.authorities, a.insecure
	out := &registry{access: a, host: at.Host, name: reg, account: authn.Anonymous,
		transport: &guard{base: egress.NewTransport(o), host: reg.RegistryStr(), insecure: a.insecure}}
	if (a.username != "" || a.password != "") && a.isFor(at) {
		out.account = &authn.Basic{Username: a.username, Password: a.password}
	}
	if a.certificate != nil && a.isFor(at) {
		out.transport.own = out.transport.base.Clone()
		out.transport.own.TLSClientConfig.Certificates = []tls.Certificate{*a.certificate}
	}
	return out, nil
}

func (r *registry) close() {
	r.transport.base.CloseIdleConnections()
	if r.transport.own != nil {
		r.transport.own.CloseIdleConnections()
	}
}

// session is logged in at a registry, for one scope.
type session struct {
	registry *registry
	client   *http.Client
}

// login logs in, for a scope of the registry's token server where it has one.
func (r *registry) login(ctx context.Context, scope string) (*session, error) {
	t, err := transport.NewWithContext(ctx, r.name, r.account, r.transport, []string{scope})
	if err != nil {
		return nil, r.failure(ctx, "a login", err)
	}
	return &session{r, &http.Client{Transport: t, CheckRedirect: checkRedirect}}, nil
}

// pull logs in to read a repository.
func (r *registry) pull(ctx context.Context, repository string) (*session, error) {
	return r.login(ctx, "repository:"+repository+":pull")
}

// refusal is an answer of the registry other than the expected one.
type refusal struct {
	*Failure
	code int
}

// Unwrap returns the failure, so that callers see nothing else of the answer.
func (r *refusal) Unwrap() error { return r.Failure }

// request returns the header and the body of an answer of 200. A body of more than most bytes is a failure.
func (s *session) request(ctx context.Context, method, path, query string, most int64, what string) (http.Header, []byte, error) {
	// The session takes the scheme that answered.
	u := url.URL{Scheme: "https", Host: s.registry.name.RegistryStr(), Path: path, RawQuery: query}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, failure(ReasonInvalid, "the URL of %s can't be asked for", what)
	}
	if strings.Contains(path, "/manifests/") {
		req.Header.Set("Accept", mediaManifest)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, s.registry.failure(ctx, what, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, s.registry.refused(resp.StatusCode, what)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, nil, s.registry.failure(ctx, what, err)
	}
	if int64(len(raw)) > most {
		return nil, nil, failure(ReasonTooLarge, "%s has more than %d MiB", what, most>>20)
	}
	return resp.Header, raw, nil
}

func (r *registry) refused(code int, what string) error {
	host, reason, hint := r.name.RegistryStr(), ReasonUnreachable, ""
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		reason, hint = ReasonUnauthorized, ": check "+r.access.words().credential
	case http.StatusNotFound, http.StatusGone:
		reason = ReasonNotFound
	}
	return &refusal{failure(reason, "%s answers %d for %s%s", host, code, what, hint), code}
}

// failure returns why there is no answer, without the library's error: that quotes answers, which may contain tokens.
func (r *registry) failure(ctx context.Context, what string, err error) error {
	host := r.name.RegistryStr()
	var answer *transport.Error
	var network *url.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answer):
		return r.refused(answer.StatusCode, what)
	case errors.Is(err, errSite):
		return failure(ReasonRefused, "%s wants the credentials to be sent to another site, which is refused", host)
	case errors.Is(err, errTooMuch):
		return tooMuch(host, maxRequests, "answers to be read")
	// Before TLS, without which the library tries a registry, too: one that nobody reaches.
	case errors.Is(err, egress.ErrRefused), errors.As(err, &dial) && dial.Op == "dial":
	case errors.Is(err, errPlain), errors.Is(err, http.ErrSchemeMismatch):
		return failure(ReasonUnreachable,
			"%s does not speak TLS with a certificate that is valid: check %s, or %s if that is on purpose", host,
			r.access.words().authorities, r.access.words().insecure)
	case !errors.As(err, &network) && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return failure(ReasonUnreachable, "%s does not answer %s as a container registry does", host, what)
	}
	return unreachable(ctx, r.access, what, &url.URL{Host: host}, err)
}

// manifest is what is remembered of a manifest.
type manifest struct {
	// chart says that it is a chart of Helm, which the rest is about.
	chart         bool
	name, version string
	// digest is that of the packed chart.
	digest  string
	created time.Time
	about   chart.About
}

// digestOf asks for the digest of what is under a tag; "" where the registry does not say it.
func (s *session) digestOf(ctx context.Context, at reference) (string, error) {
	header, _, err := s.request(ctx, http.MethodHead, "/v2/"+at.repository+"/manifests/"+at.version, "", 0, "a manifest")
	var refused *refusal
	if errors.As(err, &refused) && refused.code == http.StatusMethodNotAllowed {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if digest := header.Get("Docker-Content-Digest"); isSHA256(digest) {
		return digest, nil
	}
	return "", nil
}

// descriptor names content by its digest.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// manifest reads a manifest, and what describes its chart.
func (s *session) manifest(ctx context.Context, at reference) (*manifest, error) {
	var is struct {
		Config      descriptor        `json:"config"`
		Layers      []descriptor      `json:"layers"`
		Annotations map[string]string `json:"annotations"`
	}
	_, raw, err := s.request(ctx, http.MethodGet, "/v2/"+at.repository+"/manifests/"+at.version, "", maxManifest, "a manifest")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(at.version, sha256Prefix) && at.version != sha256Prefix+chart.Digest(raw) {
		return nil, failure(ReasonDigest, "the manifest is another one than its digest says")
	}
	if json.Unmarshal(raw, &is) != nil {
		return nil, failure(ReasonInvalid, "the manifest is no JSON of one")
	}
	if is.Config.MediaType != mediaConfig {
		return &manifest{}, nil
	}
	out := &manifest{chart: true}
	for _, layer := range is.Layers {
		if !slices.Contains(mediaChart, layer.MediaType) {
			continue // a signature of it, for example
		}
		if out.digest != "" {
			return nil, failure(ReasonInvalid, "the manifest has more than one chart")
		}
		if !isSHA256(layer.Digest) {
			return nil, failure(ReasonInvalid, "the digest of the chart is no SHA-256 in hexadecimal")
		}
		if layer.Size > chart.MaxArchive {
			return nil, failure(ReasonTooLarge, "the chart has more than %d MiB", chart.MaxArchive>>20)
		}
		out.digest = strings.TrimPrefix(layer.Digest, sha256Prefix)
	}
	if out.digest == "" {
		return nil, failure(ReasonInvalid, "the manifest has no chart")
	}
	raw, err = s.blob(ctx, at.repository, is.Config.Digest, maxConfig, "the description of a chart")
	if err != nil {
		return nil, err
	}
	var described chart.Metadata
	var about chart.About
	if json.Unmarshal(raw, &described) != nil {
		return nil, failure(ReasonInvalid, "the description of the chart is no JSON of one")
	}
	if out.name, out.version = described.Name, described.Version; len(out.name) > maxRepository || len(out.version) > maxRepository {
		return nil, failure(ReasonInvalid, "the name or the version of the chart has more than %d letters", maxRepository)
	}
	_ = json.Unmarshal(raw, &about) // it decodes what it can
	out.about = short(&about)
	if created, err := time.Parse(time.RFC3339, is.Annotations["org.opencontainers.image.created"]); err == nil {
		out.created = created
	}
	return out, nil
}

// short returns a chart's description, shortened to what is remembered of each version.
func short(is *chart.About) chart.About {
	const text, address, maintainers = 1024, 2048, 10
	within := func(s string, most int) string {
		if len(s) > most {
			return ""
		}
		return strings.Clone(s)
	}
	out := chart.About{Description: strings.Clone(chart.Clip(is.Description, text)), Home: within(is.Home, address),
		Icon: within(is.Icon, address)}
	for _, m := range is.Maintainers[:min(len(is.Maintainers), maintainers)] {
		out.Maintainers = append(out.Maintainers, chart.Maintainer{Name: within(m.Name, text), Email: within(m.Email, text),
			URL: within(m.URL, address)})
	}
	return out
}

// blob reads content by its digest, and verifies it.
func (s *session) blob(ctx context.Context, repository, digest string, most int64, what string) ([]byte, error) {
	if !isSHA256(digest) {
		return nil, failure(ReasonInvalid, "the digest of %s is no SHA-256 in hexadecimal", what)
	}
	_, raw, err := s.request(ctx, http.MethodGet, "/v2/"+repository+"/blobs/"+digest, "", most, what)
	if err != nil {
		return nil, err
	}
	if !IsOf(raw, digest) {
		return nil, failure(ReasonDigest, "%s is another one than its digest says", what)
	}
	return raw, nil
}

// registryChart reads a chart in a registry: by its digest where that is known, whatever its tag has become.
func (c *Client) registryChart(ctx context.Context, a *Access, u *url.URL, digest string) ([]byte, error) {
	at, err := parseReference("spec.chartURL", u)
	if err != nil {
		return nil, err
	}
	r, err := c.registry(a, u)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s, err := r.pull(ctx, at.repository)
	if err != nil {
		return nil, err
	}
	if digest == "" {
		is, err := s.manifest(ctx, at)
		if err != nil {
			return nil, err
		}
		if !is.chart {
			return nil, failure(ReasonInvalid, "what is there is no chart of Helm")
		}
		digest = is.digest
	}
	return s.blob(ctx, at.repository, sha256Prefix+strings.ToLower(strings.TrimPrefix(digest, sha256Prefix)), chart.MaxArchive, "the chart")
}

// String is for the log.
func (at reference) String() string { return fmt.Sprintf("%s:%s", at.repository, at.version) }
