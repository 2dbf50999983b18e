package httpcache

import (
	"net/http"
	"runtime"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/web"

	"k8s.io/klog/v2"
)

// Responses is what all answers share: the bound on their bytes, and the compressors.
type Responses struct {
	inFlight    inFlight
	Compressors *compressorPool
}

// NewResponses returns responses of at most maxOne bytes each and max bytes together.
func NewResponses(max, maxOne int64) *Responses {
	return &Responses{inFlight: inFlight{max: max, maxOne: maxOne}, Compressors: newCompressorPool(2 * runtime.GOMAXPROCS(0))}
}

// Used returns how many bytes are being written.
func (s *Responses) Used() int64 { return s.inFlight.bytes.Load() }

// Reserve returns the reservation of one answer, of nothing yet.
func (s *Responses) Reserve() Reservation { return Reservation{limit: &s.inFlight} }

// Content is the bytes of an answer: some before its items, the items, some behind. The items are there, or
// are written from where they are.
type Content struct {
	Before, Items, after []byte
	Write                func(*ChunkWriter)
	More                 int64 // bytes of what write writes
	gzip                 bool
	compressor           *compressor // compresses what write writes on its way, nil where nothing is to be
}

func (c *Content) Length() int64 {
	return int64(len(c.Before)+len(c.Items)+len(c.after)) + c.More
}

// After is the text of p behind head, as one member of gzip.
func (p *Deflated) After(head []byte) Content {
	before, after := p.wrapper(head)
	return Content{Before: before, Items: p.Blocks, after: after[:], gzip: true}
}

// Compress returns c compressed, a long one on its way to the client. It is left as it is where no
// compressor is free.
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

// Send writes an answer. An error of the client's connection is of no interest: nobody is left to tell.
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
			c.sendCompressed(w)
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
	out := newDeadlineWriter(w, length)
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

// sendCompressed compresses what is written on its way. Its length is not known before.
func (c *Content) sendCompressed(w http.ResponseWriter) {
	out := newDeadlineWriter(w, 0)
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
		panic(http.ErrAbortHandler) // what is not whole must not end as if it were
	}
}
