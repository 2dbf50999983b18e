package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"path"
	"strings"
)

//go:embed assets/style.css
var styleText string

//go:embed assets/passkey.js
var scriptText string

//go:embed assets/icon.svg
var iconText string

// Asset is a file that never changes under its name.
type Asset struct {
	Type    string
	Content []byte
}

// Assets are the files that pages refer to. Their names contain a hash of the content.
type Assets struct {
	style, script, icon string
	files               map[string]*Asset
}

func openAssets() *Assets {
	a := &Assets{files: map[string]*Asset{}}
	a.style = a.add("style.css", "text/css; charset=utf-8", styleText)
	a.script = a.add("passkey.js", "text/javascript; charset=utf-8", scriptText)
	a.icon = a.add("icon.svg", "image/svg+xml", iconText)
	return a
}

func (a *Assets) add(name, kind, content string) string {
	sum := sha256.Sum256([]byte(content))
	ext := path.Ext(name)
	hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:8]) + ext
	a.files[hashed] = &Asset{Type: kind, Content: []byte(content)}
	return hashed
}

// File returns the file of that name, or nil.
func (a *Assets) File(name string) *Asset { return a.files[name] }
