package httpcache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"

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
