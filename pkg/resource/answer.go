package resource

import (
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/web"

	"k8s.io/klog/v2"
)

// Answer is a page in one of its forms. It is a web.Responder.
//
// Its head has what is of the moment: the resource version, totals, facets. Behind it are the items, whose
// bytes are those of the cache, or, for a page that is asked for again, joined and compressed already.
type Answer struct {
	page *Page
	form string
	head []byte
}

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	p := a.page
	if p.Partial {
		w.Header()[HeaderPartial] = partial
	}
	tag := a.tag()
	if unmodified(w, r, tag) {
		return
	}
	f := reservation{limit: &p.service.inFlight}
	defer f.release()
	c, err := a.content(&f, p.bytes > minGzip && acceptsGzip(r.Header))
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	conditional(w.Header(), tag)
	p.service.send(w, r, &c)
}

// tag is the entity tag. It has nothing of the list's resource version, which other objects move too.
func (a *Answer) tag() string {
	p := a.page
	fields := ""
	if p.projection != nil {
		fields = p.projection.key
	}
	if p.complete {
		fields += "\x00complete"
	}
	return tagOf(a.form, string(p.digest[:]), strconv.Itoa(p.Total), p.facets, fields)
}

// content finds the bytes of the answer, as far as they have to be made before it begins, and counts them.
func (a *Answer) content(f *reservation, zip bool) (content, error) {
	p := a.page
	c := content{before: a.head}
	switch {
	case p.body != nil:
		if zip {
			if kept := p.body.gzipped(p); kept != nil {
				c = kept.after(a.head)
				return c, f.add(c.length())
			}
		}
		c.items = p.body.plain(p)
		return c, f.add(c.length())
	case p.projection != nil:
		text, err := p.appendItems(nil, f.add)
		if err != nil {
			return c, err
		}
		c.items = text
		zip = zip && len(text) > minGzip
	default:
		c.write, c.more = p.write, p.length()
		if err := f.add(c.length()); err != nil {
			return c, err
		}
	}
	if zip {
		return p.service.compress(c), nil
	}
	return c, nil
}

// content is the bytes of an answer: some before its items, the items, some behind. The items are there, or
// are written from where they are.
type content struct {
	before, items, after []byte
	write                func(*chunkWriter)
	more                 int64 // bytes of what write writes
	gzip                 bool
	compressor           *compressor // compresses what write writes on its way, nil where nothing is to be
}

func (c *content) length() int64 {
	return int64(len(c.before)+len(c.items)+len(c.after)) + c.more
}

// after is the text of p behind head, as one member of gzip.
func (p *deflated) after(head []byte) content {
	before, after := p.wrapper(head)
	return content{before: before, items: p.blocks, after: after[:], gzip: true}
}

// compress returns c compressed, a long one on its way to the client. It is left as it is where no
// compressor is free.
func (s *Service) compress(c content) content {
	x := s.compressors.get()
	if x == nil {
		return c
	}
	if c.write != nil && c.more > largeAnswer {
		c.gzip, c.compressor = true, x
		return c
	}
	defer s.compressors.put(x)
	write := c.write
	if write == nil {
		write = func(to *chunkWriter) { to.writeBytes(c.items) }
	}
	made, err := x.compress(write)
	if err != nil {
		klog.ErrorS(err, "cannot compress an answer: it is sent as it is")
		return c
	}
	return made.after(c.before)
}

// send writes an answer. An error of the client's connection is of no interest: nobody is left to tell.
func (s *Service) send(w http.ResponseWriter, r *http.Request, c *content) {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, nosniff
	if c.gzip {
		h["Content-Encoding"] = encodingGzip
	}
	if c.compressor != nil {
		defer s.compressors.put(c.compressor)
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			c.sendCompressed(w)
		}
		return
	}
	length := c.length()
	h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	defer web.Coalesce(r.Context(), length)()
	out := newDeadlineWriter(w, length)
	defer clearDeadline(out)
	if c.items != nil && (!c.gzip || length > chunkSize) { // long: it is not copied
		for _, part := range [...][]byte{c.before, c.items, c.after} {
			if _, err := out.Write(part); err != nil {
				return
			}
		}
		return
	}
	to := newChunkWriter(out)
	defer to.free()
	to.writeBytes(c.before)
	to.writeBytes(c.items)
	if c.write != nil {
		c.write(to)
	}
	to.writeBytes(c.after)
	to.flush()
}

// sendCompressed compresses what is written on its way. Its length is not known before.
func (c *content) sendCompressed(w http.ResponseWriter) {
	out := newDeadlineWriter(w, 0)
	defer clearDeadline(out)
	if _, err := out.Write(appendStored([]byte(gzipHeader), c.before)); err != nil {
		return
	}
	c.compressor.reset(out)
	in := newChunkWriter(c.compressor)
	defer in.free()
	c.write(in)
	in.flush()
	err := in.err
	if err == nil {
		var done deflated
		if done, err = c.compressor.finish(); err == nil {
			after := done.trailer(c.before)
			_, err = out.Write(after[:])
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler) // what is not whole must not end as if it were
	}
}
