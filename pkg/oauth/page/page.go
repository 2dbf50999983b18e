// Package page renders the HTML pages of the authorization server in the user's language. They work without scripts, except passkeys.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"time"
)

// Data is the content of one page: one of the types of this package.
type Data interface {
	// file names the template; Wide asks for a wide page, Scripted for the script of passkeys.
	file() string
	Wide() bool
	Scripted() bool
}

// Message is a text of the table of words with its arguments; nil for none.
type Message []any

// Say returns a Message by its key in the table of words.
func Say(key string, args ...any) Message { return append(Message{key}, args...) }

//go:embed assets/*.html
var templates embed.FS

// Book has all pages in all languages. It is made once, and safe for concurrent use.
type Book struct {
	pages  map[Language]map[string]*template.Template
	assets *Assets
}

// Open parses the pages. Its errors are mistakes in the templates.
func Open() (*Book, error) {
	b := &Book{pages: map[Language]map[string]*template.Template{}, assets: openAssets()}
	for l, w := range languages() {
		base, err := template.New("layout.html").Funcs(w.functions()).ParseFS(templates, "assets/layout.html")
		if err != nil {
			return nil, fmt.Errorf("read the layout of pages: %w", err)
		}
		b.pages[l] = map[string]*template.Template{}
		for _, d := range all() {
			t, err := template.Must(base.Clone()).ParseFS(templates, "assets/"+d.file()+".html")
			if err != nil {
				return nil, fmt.Errorf("read page %s: %w", d.file(), err)
			}
			b.pages[l][d.file()] = t
		}
	}
	return b, nil
}

// Assets are the files that pages refer to.
func (b *Book) Assets() *Assets { return b.assets }

// frame is the data of a template.
type frame struct {
	Lang, Root          string
	Style, Script, Icon string
	D                   Data
}

// Draw returns the HTML of a page. root is the relative address of /oauth/ as seen from the page: "" or "../".
func (b *Book) Draw(l Language, root string, d Data) ([]byte, error) {
	t := b.pages[l][d.file()]
	if t == nil {
		return nil, fmt.Errorf("there is no page %s in language %q", d.file(), l)
	}
	var out bytes.Buffer
	f := frame{Lang: string(l), Root: root, Style: b.assets.style, Script: b.assets.script, Icon: b.assets.icon, D: d}
	if err := t.ExecuteTemplate(&out, "layout", f); err != nil {
		return nil, fmt.Errorf("draw page %s: %w", d.file(), err)
	}
	return out.Bytes(), nil
}

func (w words) functions() template.FuncMap {
	return template.FuncMap{
		"t":    w.say,
		"say":  func(m Message) (string, error) { return w.message(m) },
		"date": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	}
}

func (w words) message(m Message) (string, error) {
	if len(m) == 0 {
		return "", nil
	}
	key, ok := m[0].(string)
	if !ok {
		return "", fmt.Errorf("a message begins with its key, and not with a %T", m[0])
	}
	return w.say(key, m[1:]...)
}

func (w words) say(key string, args ...any) (string, error) {
	text, ok := w[key]
	switch {
	case !ok:
		return "", fmt.Errorf("the table of words has no %q", key)
	case len(args) == 0:
		return text, nil
	}
	return fmt.Sprintf(text, args...), nil
}
