package backend

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/net/html"
)

// maxTag bounds a start tag of a page whose links are mapped, in bytes, and maxToken a text or a comment: the tokenizer keeps the names of
// all attributes while it reads a tag, which take many times its size.
const maxTag, maxToken = 128 << 10, 4 << 20

// rawElements are the elements whose content the tokenizer reads as one text, also what looks like a tag.
var rawElements = map[string]bool{"iframe": true, "noembed": true, "noframes": true, "noscript": true, "plaintext": true, "script": true,
	"style": true, "textarea": true, "title": true, "xmp": true}

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

// copyMapped copies a page, and maps its links. From a tag or text on that is larger than its bound, the page stays as it is.
func copyMapped(to io.Writer, from io.Reader, base string) error {
	ahead := bufio.NewReader(from)
	z := html.NewTokenizer(ahead)
	for raw := false; ; {
		// Only the bound on what is buffered ends a tag before its attributes are kept, and it has to be set before it is known what comes.
		if z.SetMaxBuf(maxToken); !raw && startsTag(z.Buffered(), ahead) {
			z.SetMaxBuf(maxTag)
		}
		kind := z.Next()
		text := z.Raw()
		raw = false
		switch kind {
		case html.ErrorToken:
			return copyRest(to, z, ahead)
		case html.StartTagToken, html.SelfClosingTagToken:
			text = bytes.Clone(text) // before Token, which decodes in place
			t := z.Token()
			raw = rawElements[t.Data]
			if mapAttributes(t.Attr, base) {
				text = []byte(t.String())
			}
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
}

// startsTag reports whether the next bytes of a page begin a start tag, if they are no raw text. The tokenizer has taken those in buffered,
// and would wait for two of them, too.
func startsTag(buffered []byte, ahead *bufio.Reader) bool {
	var two [2]byte
	if n := copy(two[:], buffered); n < len(two) {
		more, _ := ahead.Peek(len(two) - n) // an error comes again
		copy(two[n:], more)
	}
	c := two[1] | 0x20
	return two[0] == '<' && 'a' <= c && c <= 'z'
}

// copyRest copies what is left when the tokenizer has ended: a tag that the end of the page breaks off, or all from a token on that is too
// large.
func copyRest(to io.Writer, z *html.Tokenizer, ahead io.Reader) error {
	if _, err := to.Write(z.Raw()); err != nil {
		return err
	}
	switch err := z.Err(); {
	case errors.Is(err, io.EOF):
		return nil
	case !errors.Is(err, html.ErrBufferExceeded):
		return err
	}
	_, err := io.Copy(to, io.MultiReader(bytes.NewReader(z.Buffered()), ahead))
	return err
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
