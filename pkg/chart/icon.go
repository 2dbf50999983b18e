package chart

import (
	"encoding/base64"
	"path"
	"strings"
)

// MaxIcon bounds an image of a chart that is shown as its icon, in bytes.
const MaxIcon = 256 << 10

// Icon returns the icon that extension.yaml names, as pages show it: a URL stays one, and a file of the chart becomes a data URL. Anything
// else is none.
func (a *Archive) Icon(text string) string {
	if strings.HasPrefix(text, "data:image/") || strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return text
	}
	media := map[string]string{".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
		".webp": "image/webp"}[strings.ToLower(path.Ext(text))]
	raw, ok := a.File(strings.TrimPrefix(path.Clean("/"+text), "/"))
	if media == "" || !ok || len(raw) > MaxIcon {
		return ""
	}
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(raw)
}
