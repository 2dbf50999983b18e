package page

import (
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/web"
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
	if httpcache.NotModified(w, r, tag) {
		return
	}
	f := p.Cache.responses.Reserve()
	defer f.Release()
	c, err := a.content(&f, p.Bytes > httpcache.MinGzip && httpcache.AcceptsGzip(r.Header))
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	httpcache.SetHeaders(w.Header(), tag)
	p.Cache.responses.Send(w, r, &c)
}

// tag is the entity tag. It has nothing of the list's resource version, which other objects move too.
func (a *Answer) tag() string {
	p := a.page
	fields := ""
	if p.Projection != nil {
		fields = p.Projection.Key
	}
	if p.complete {
		fields += "\x00complete"
	}
	return httpcache.Tag(a.form, string(p.digest[:]), strconv.Itoa(p.Total), p.Facets, fields)
}

// content finds the bytes of the answer, as far as they have to be made before it begins, and counts them.
func (a *Answer) content(f *httpcache.Reservation, zip bool) (httpcache.Content, error) {
	p := a.page
	c := httpcache.Content{Before: a.head}
	switch {
	case p.Body != nil:
		if zip {
			if kept := p.Body.gzipped(p); kept != nil {
				c = kept.After(a.head)
				return c, f.Add(c.Length())
			}
		}
		c.Items = p.Body.plain(p)
		return c, f.Add(c.Length())
	case p.Projection != nil:
		text, err := p.appendItems(nil, f.Add)
		if err != nil {
			return c, err
		}
		c.Items = text
		zip = zip && len(text) > httpcache.MinGzip
	default:
		c.Write, c.More = p.write, p.length()
		if err := f.Add(c.Length()); err != nil {
			return c, err
		}
	}
	if zip {
		return p.Cache.responses.Compress(c), nil
	}
	return c, nil
}

// partial is the value of HeaderPartial; answers share it, and net/http copies it.
var partial = []string{"true"}

// HeaderPartial is the header, with the value true, of an answer that shows only a part of what there is, because
// the caller may see no more: Page.Partial.
const HeaderPartial = "X-Kapis-Partial"
