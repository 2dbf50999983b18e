package httpcache

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"runtime"
	"strconv"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Digest is equal for equal lists of objects, on every replica: it is made of their UIDs and resource versions, and of the
// lengths and checksums of their JSON, since a kind may be shown with its data or without, and a restored etcd gives resource
// versions a second time.
type Digest [sha256.Size]byte

// DigestOf returns the digest of records, and the length of their JSON.
func DigestOf(records []*index.Record) (d Digest, bytes int64) {
	const block = 4 << 10
	text, h := make([]byte, 0, min(len(records)*64, block)), sha256.New()
	for _, r := range records {
		bytes += int64(r.JSON.Len())
		text = lru.AppendPart(lru.AppendPart(text, r.UID), r.ResourceVersion)
		text = binary.AppendUvarint(text, uint64(r.JSON.Len()))
		text = binary.BigEndian.AppendUint32(text, r.Checksum())
		if r.UID == "" || r.ResourceVersion == "" {
			text = append(text, r.JSON.String()...)
		}
		if len(text) > block {
			h.Write(text)
			text = text[:0]
		}
	}
	h.Write(text)
	h.Sum(d[:0])
	return d, bytes
}

// Tag returns an entity tag of what an answer depends on. It is weak (RFC 9110, 8.8.1): answers with the same tag may differ
// in the resource version of the list and in their compression.
func Tag(parts ...string) string {
	var room [256]byte
	text := append(room[:0], '3') // the version of all forms
	for _, p := range parts {
		text = lru.AppendPart(text, p)
	}
	sum := sha256.Sum256(text)
	var out [3 + 24 + 1]byte
	copy(out[:], `W/"`)
	base64.RawURLEncoding.Encode(out[3:27], sum[:18])
	out[27] = '"'
	return string(out[:])
}

// Values of headers that every answer shares; net/http copies them. An answer is private to its caller, and a cached one
// must be revalidated by its tag before each use.
var (
	contentType  = []string{"application/json"}
	nosniff      = []string{"nosniff"}
	cacheControl = []string{"private, no-cache"}
	vary         = []string{"Authorization, Accept-Encoding"}
	encodingGzip = []string{"gzip"}
)

// NotModified answers with 304 where the client has the answer already, and reports whether it did. The
// headers are those that RFC 9110, 15.4.5, asks for.
func NotModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	if len(r.Header["If-None-Match"]) == 0 || !web.HasTag(r.Header, tag) {
		return false
	}
	SetHeaders(w.Header(), tag)
	w.WriteHeader(http.StatusNotModified)
	return true
}

// SetHeaders sets the headers that let clients cache an answer.
func SetHeaders(h http.Header, tag string) {
	h["Etag"], h["Cache-Control"], h["Vary"] = []string{tag}, cacheControl, vary
}

// Responses is what all answers share: the limit on their bytes, and the compressors.
type Responses struct {
	inFlight    inFlight
	Compressors *compressorPool
}

// NewResponses returns Responses for answers of at most maxOne bytes each and max bytes together, of which one owner has at most half, or
// one answer.
func NewResponses(max, maxOne int64) *Responses {
	return &Responses{inFlight: inFlight{max: max, maxOne: maxOne, of: map[string]int64{}},
		Compressors: newCompressorPool(2 * runtime.GOMAXPROCS(0))}
}

// Reserve returns an empty reservation for one answer, to the request of ctx.
func (s *Responses) Reserve(ctx context.Context) Reservation {
	return Reservation{limit: &s.inFlight, user: userOf(ctx)}
}

// Content is the bytes of an answer: some before its items, the items, some after. The items are there, or are written from
// where they are.
type Content struct {
	Before, Items, after []byte
	Write                func(*ChunkWriter)
	More                 int64 // bytes of what write writes
	gzip                 bool
	compressor           *compressor // compresses what write writes on its way, nil where nothing is to be
}

// Length returns how many bytes the answer has.
func (c *Content) Length() int64 {
	return int64(len(c.Before)+len(c.Items)+len(c.after)) + c.More
}

// After returns the text of p after head, as one member of gzip.
func (p *Deflated) After(head []byte) Content {
	before, after := p.wrapper(head)
	return Content{Before: before, Items: p.Blocks, after: after[:], gzip: true}
}

// Compress returns c compressed, a long one while it is written. It is unchanged where no compressor is free.
func (s *Responses) Compress(c Content) Content {
	x := s.Compressors.Get()
	if x == nil {
		return c
	}
	if c.Write != nil && c.More > largeAnswer {
		c.gzip, c.compressor = true, x
		return c
	}
	defer s.Compressors.Put(x)
	write := c.Write
	if write == nil {
		write = func(to *ChunkWriter) { to.WriteBytes(c.Items) }
	}
	made, err := x.Compress(write)
	if err != nil {
		klog.ErrorS(err, "cannot compress an answer: it is sent as it is")
		return c
	}
	return made.After(c.Before)
}

// Send writes an answer. Errors of the client's connection are ignored: there is no one to report them to.
func (s *Responses) Send(w http.ResponseWriter, r *http.Request, c *Content) {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, nosniff
	if c.gzip {
		h["Content-Encoding"] = encodingGzip
	}
	if c.compressor != nil {
		defer s.Compressors.Put(c.compressor)
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			c.sendCompressed(w, r)
		}
		return
	}
	length := c.Length()
	h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	defer web.Coalesce(r.Context(), length)()
	out := newDeadlineWriter(w, r, length)
	defer clearDeadline(out)
	if c.Items != nil && (!c.gzip || length > ChunkSize) { // long: it is not copied
		for _, part := range [...][]byte{c.Before, c.Items, c.after} {
			if _, err := out.Write(part); err != nil {
				return
			}
		}
		return
	}
	to := newChunkWriter(out)
	defer to.free()
	to.WriteBytes(c.Before)
	to.WriteBytes(c.Items)
	if c.Write != nil {
		c.Write(to)
	}
	to.WriteBytes(c.after)
	to.flush()
}

// sendCompressed compresses the content while writing it. Its length is not known in advance.
func (c *Content) sendCompressed(w http.ResponseWriter, r *http.Request) {
	out := newDeadlineWriter(w, r, 0)
	defer clearDeadline(out)
	if _, err := out.Write(appendStored([]byte(gzipHeader), c.Before)); err != nil {
		return
	}
	c.compressor.reset(out)
	in := newChunkWriter(c.compressor)
	defer in.free()
	c.Write(in)
	in.flush()
	err := in.err
	if err == nil {
		var done Deflated
		if done, err = c.compressor.finish(); err == nil {
			after := done.trailer(c.Before)
			_, err = out.Write(after[:])
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler) // an incomplete answer must not end like a complete one
	}
}
