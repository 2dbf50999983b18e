package backend

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/net/html"
)

// maxToken bounds a tag or a text of a page whose links are mapped, in bytes.
const maxToken = 4 << 20

// linkAttributes are the attributes of tags that a browser follows.
var linkAttributes = map[string]bool{"href": true, "src": true, "action": true, "formaction": true, "poster": true, "data": true}

// mapPageLinks maps the links of an HTML page that are paths of a backend to the paths below base. An answer that is no page, or is
// compressed, stays as it is.
func mapPageLinks(res *http.Response, base string) {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != "text/html" || res.Header.Get("Content-Encoding") != "" || res.Request.Method == http.MethodHead {
		return
	}
	out, in := io.Pipe()
	from := res.Body
	go func() {
		_ = in.CloseWithError(copyMapped(in, from, base))
	}()
	res.Body = &mappedPage{out, from}
	res.ContentLength = -1
	for _, of := range []string{"Content-Length", "Etag", "Content-Md5", "Digest", "Accept-Ranges"} { // of the page as the backend has it
		delete(res.Header, of)
	}
}

// mappedPage is a page that is mapped while it is read. Closing it ends the mapping.
type mappedPage struct {
	*io.PipeReader
	from io.Closer
}

func (p *mappedPage) Close() error { return errors.Join(p.PipeReader.Close(), p.from.Close()) }

func copyMapped(to io.Writer, from io.Reader, base string) error {
	z := html.NewTokenizer(from)
	z.SetMaxBuf(maxToken)
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if errors.Is(z.Err(), io.EOF) {
				return nil
			}
			return z.Err()
		}
		raw := append([]byte(nil), z.Raw()...) // before Token, which decodes in place
		if kind == html.StartTagToken || kind == html.SelfClosingTagToken {
			if t := z.Token(); mapAttributes(t.Attr, base) {
				raw = []byte(t.String())
			}
		}
		if _, err := to.Write(raw); err != nil {
			return err
		}
	}
}

// mapAttributes reports whether it has changed an attribute.
func mapAttributes(all []html.Attribute, base string) (changed bool) {
	for i := range all {
		a := &all[i]
		if !linkAttributes[a.Key] || !strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") {
			continue
		}
		if rest, is := strings.CutPrefix(a.Val, base); is && (rest == "" || strings.ContainsAny(rest[:1], "/?#")) {
			continue
		}
		a.Val, changed = base+a.Val, true
	}
	return changed
}
