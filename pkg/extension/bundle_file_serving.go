package extension

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// maxContent bounds a file of a bundle, and maxContents all that are in memory, in bytes.
	maxContent, maxContents = 16 << 20, 128 << 20
	// fetchTimeout bounds reading one.
	fetchTimeout = 3 * time.Second
	// recheckAfter is how long content is taken for the present one whose bundle does not say so by its digest, and how long a source that
	// can't be read is not asked again: pages would wait for it each time.
	recheckAfter = 10 * time.Second
	// staleFor is how long old content is served while its source can't be read.
	staleFor = 24 * time.Hour
	// minGzip is the size in bytes from which content is compressed.
	minGzip = 1 << 10
	// readAtOnce bounds the files that are read at once: each takes its size and that of its gzip, and anybody may ask for all of them.
	readAtOnce = 4
	// turnTimeout bounds the wait for others that are read: a console's page asks for the files of all extensions together.
	turnTimeout = 10 * time.Second
	// pieceSize is how much is written at once: a client that receives nothing is told from a slow one by each piece, in bytes.
	pieceSize = 32 << 10
)

// Reader reads what bundles are made of.
type Reader interface {
	// Key returns a key of a ConfigMap, or of a Secret.
	Key(ctx context.Context, secret bool, r *v1alpha1.KeyReference) ([]byte, error)
}

// Files serves the files of bundles.
type Files struct {
	Index  *Index
	Reader Reader
	Now    func() time.Time

	fetching singleflight.Group
	reading  chan struct{} // has an entry for each file that is read now
	mu       sync.Mutex
	kept     *recent.Map[fileKey, *content]
}

type fileKey struct{ bundle, link string }

// content is a file as it is served.
type content struct {
	plain, zipped []byte // zipped is nil where it is not shorter
	digest        string
	version       string // of the bundle
	at            time.Time
	// failed is when the source could not be read last, since at, by a bundle of the version failedOf.
	failed   time.Time
	failedOf string
}

// errTooLong says that a file has more than may be served.
var errTooLong = fmt.Errorf("the file has more than %d bytes", maxContent)

// text is the key where one has to be a text.
func (k fileKey) text() string { return strconv.Itoa(len(k.bundle)) + ":" + k.bundle + k.link }

// NewFiles returns the files of the bundles of an index.
func NewFiles(x *Index, r Reader, now func() time.Time) *Files {
	return &Files{Index: x, Reader: r, Now: now, reading: make(chan struct{}, readAtOnce),
		kept: recent.NewWeightedMap[fileKey](maxContents, func(c *content) int { return len(c.plain) + len(c.zipped) + 1<<10 })}
}

// content returns the content of a file: from memory while that is current, and otherwise from its source.
func (s *Files) content(ctx context.Context, f *File) (*content, error) {
	key := fileKey{f.bundle.uid, f.Link}
	s.mu.Lock()
	kept, ok := s.kept.Use(key)
	s.mu.Unlock()
	if ok && (f.present(kept, s.Now()) || kept.failedOf == f.bundle.version && s.Now().Sub(kept.failed) < recheckAfter) {
		return kept, nil
	}
	got, err, _ := s.fetching.Do(key.text(), func() (any, error) {
		ctx := context.WithoutCancel(ctx) // others may wait for it
		leave, err := s.enter(ctx, f)
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		raw, err := s.read(ctx, f)
		if err != nil {
			return nil, err
		}
		c := newContent(raw, f.bundle.version, s.Now())
		if f.digest != "" && f.digest != c.digest {
			return nil, errors.New("its content is not the one that its link names")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept.Set(key, c)
		return c, nil
	})
	switch {
	case err == nil:
		return got.(*content), nil
	case ok && s.Now().Sub(kept.at) < staleFor:
		klog.ErrorS(err, "A file of a JSBundle can't be read: the last one is served", "bundle", f.bundle.Name, "link", f.Link)
		held := *kept
		held.failed, held.failedOf = s.Now(), f.bundle.version
		s.mu.Lock()
		defer s.mu.Unlock()
		if is, ok := s.kept.Use(key); ok && is == kept { // else another request has read it meanwhile
			s.kept.Set(key, &held)
		}
		return kept, nil
	}
	return nil, err
}

// enter waits until a file may be read. One whose content is in its bundle is in memory already, and does not wait for sources of others.
func (s *Files) enter(ctx context.Context, f *File) (leave func(), err error) {
	if f.raw != nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case s.reading <- struct{}{}:
		return func() { <-s.reading }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d other files are being read: %w", readAtOnce, ctx.Err())
	}
}

// present reports whether content in memory is current.
func (f *File) present(c *content, now time.Time) bool {
	if c.version != f.bundle.version {
		return false
	}
	return f.settled(c) || now.Sub(c.at) < recheckAfter
}

// settled reports whether the version of the bundle changes with the content.
func (f *File) settled(c *content) bool { return f.raw != nil || f.main && f.bundle.digest == c.digest }

// Digest returns the digest of a bundle's content now; "" for content in the object itself.
func (s *Files) Digest(ctx context.Context, o *v1alpha1.JSBundle) (string, error) {
	b, err := newBundle(o)
	if err != nil {
		return "", err
	}
	for _, f := range b.files {
		if f.main && f.raw == nil {
			ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
			defer cancel()
			raw, err := s.read(ctx, f)
			return Digest(raw), err
		}
	}
	return "", nil
}

// read reads a file from where its bundle says.
func (s *Files) read(ctx context.Context, f *File) ([]byte, error) {
	switch {
	case f.raw != nil:
		return f.raw, nil
	case f.from.ConfigMapKeyRef != nil:
		return s.Reader.Key(ctx, false, f.from.ConfigMapKeyRef)
	case f.from.SecretKeyRef != nil:
		return s.Reader.Key(ctx, true, f.from.SecretKeyRef)
	}
	a, err := ParseEndpoint(&f.from.Endpoint)
	if err != nil {
		return nil, err
	}
	t := a.Transport(s.Index.options.Egress)
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Scheme+"://"+a.Host+cmp.Or(a.Path, "/"), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its source answers %d", resp.StatusCode)
	}
	return bounded(resp.Body)
}

func bounded(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err == nil && len(raw) > maxContent {
		err = errTooLong
	}
	return raw, err
}

func newContent(raw []byte, version string, now time.Time) *content {
	c := &content{plain: raw, digest: Digest(raw), version: version, at: now}
	if len(raw) < minGzip {
		return c
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err == nil && w.Close() == nil && out.Len() < len(raw)*9/10 {
		c.zipped = bytes.Clone(out.Bytes())
	}
	return c
}

// Digest returns the digest of content, as AnnotationDigest has it.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Serve answers with a file, in pieces: w may end an answer that its client does not receive. Its error is of the source, and nothing has
// been written then.
func (s *Files) Serve(w http.ResponseWriter, r *http.Request, f *File) error {
	c, err := s.content(r.Context(), f)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"] = []string{f.Type}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["Vary"] = []string{"Accept-Encoding"}
	if strings.HasPrefix(f.Type, "image/svg") {
		h["Content-Security-Policy"] = []string{"default-src 'none'; style-src 'unsafe-inline'; sandbox"}
	}
	h["Cache-Control"] = []string{"no-cache"}
	if v := r.URL.Query().Get("resourceVersion"); f.digest != "" || v != "" && v == f.bundle.version && v == c.version && f.settled(c) {
		h["Cache-Control"] = []string{"public, max-age=31536000, immutable"}
	}
	body, tag := c.plain, `"`+c.digest+`"`
	if c.zipped != nil && r.Header.Get("Range") == "" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, tag = c.zipped, `"`+c.digest+`-gzip"`
		h["Content-Encoding"] = []string{"gzip"}
	}
	h["Etag"] = []string{tag}
	switch {
	case r.Header.Get("Range") != "":
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	case matches(r.Header["If-None-Match"], tag):
		delete(h, "Content-Type")
		delete(h, "Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
	default: // without the copy that ServeContent would make
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		if r.Method != http.MethodHead {
			writePieces(w, body)
		}
	}
	return nil
}

// writePieces writes a body. Errors are of the client, and there is no one to report them to.
func writePieces(w io.Writer, body []byte) {
	for len(body) > 0 {
		n, err := w.Write(body[:min(len(body), pieceSize)])
		if err != nil {
			return
		}
		body = body[n:]
	}
}

// matches reports whether lines of If-None-Match name an entity tag (RFC 9110, 13.1.2).
func matches(lines []string, tag string) bool {
	for _, line := range lines {
		for is := range strings.SplitSeq(line, ",") {
			if is = strings.TrimPrefix(strings.TrimSpace(is), "W/"); is == tag || is == "*" {
				return true
			}
		}
	}
	return false
}
