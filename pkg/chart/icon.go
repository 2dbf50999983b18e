package chart

import (
	"encoding/base64"
	"path"
	"strings"
)

// MaxIcon bounds an image of a chart that is shown as its icon, in bytes.
const MaxIcon = 256 << 10

// MaxInlineIcon is from how many characters on the URL of an icon is too long for lists, which are read with every page.
const MaxInlineIcon = 32 << 10

// Image is an image of a chart.
type Image struct {
	// Suffix ends the name of its file, and begins with a dot.
	Suffix string
	Data   []byte
}

// imageTypes are the media types of images, by the suffix of their files.
var imageTypes = map[string]string{".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif": "image/gif", ".webp": "image/webp"}

// Image returns the image that extension.yaml names: a file of the chart, or what a data URL has. It is nil for anything else.
func (a *Archive) Image(text string) *Image {
	if data, ok := strings.CutPrefix(text, "data:"); ok {
		media, encoded, ok := strings.Cut(data, ";base64,")
		for suffix, is := range imageTypes {
			if ok && is == media && suffix != ".jpeg" {
				raw, err := base64.StdEncoding.DecodeString(encoded)
				if err != nil || len(raw) > MaxIcon {
					return nil
				}
				return &Image{suffix, raw}
			}
		}
		return nil
	}
	suffix := strings.ToLower(path.Ext(text))
	raw, ok := a.File(strings.TrimPrefix(path.Clean("/"+text), "/"))
	if imageTypes[suffix] == "" || !ok || len(raw) > MaxIcon {
		return nil
	}
	return &Image{suffix, raw}
}

// Icon returns the icon that extension.yaml names, as pages show it: a URL stays one, and a file of the chart becomes a data URL. Anything
// else is none.
func (a *Archive) Icon(text string) string {
	if strings.HasPrefix(text, "data:image/") || strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return text
	}
	image := a.Image(text)
	if image == nil {
		return ""
	}
	return "data:" + imageTypes[image.Suffix] + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
}
