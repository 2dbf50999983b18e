package setting

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
)

// imageType returns the media type of images with an extension, "" for another.
func imageType(extension string) string {
	switch extension {
	case "png":
		return "image/png"
	case "jpg", "jpeg":
		return "image/jpeg"
	case "svg":
		return "image/svg+xml"
	case "ico":
		return "image/x-icon"
	}
	return ""
}

// TypeOfImage returns the media type of an image of that name; "" for a name that no image has.
func TypeOfImage(name string) string {
	hash, extension, _ := strings.Cut(name, ".")
	if len(hash) != hashLength || strings.Trim(hash, "0123456789abcdef") != "" {
		return ""
	}
	return imageType(extension)
}

var errImage = errors.New("it has to be an image: PNG, JPEG, SVG or ICO, with the extension of its kind")

// CheckImage returns the extension of an uploaded file, in lower case, if it is one of an image and the content is of that kind: both
// must agree, since browsers go by either.
func CheckImage(file string, content []byte) (extension string, err error) {
	if i := strings.LastIndexByte(file, '.'); i >= 0 {
		extension = strings.ToLower(file[i+1:])
	}
	is := ""
	switch {
	case bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")):
		is = "image/png"
	case bytes.HasPrefix(content, []byte("\xff\xd8\xff")):
		is = "image/jpeg"
	case bytes.HasPrefix(content, []byte("\x00\x00\x01\x00")):
		is = "image/x-icon"
	case isSVG(content):
		is = "image/svg+xml"
	}
	if is == "" || is != imageType(extension) {
		return "", errImage
	}
	return extension, nil
}

// isSVG reports whether a text is XML whose outermost element is svg. Its content is not checked: it is served so that no script in it
// runs.
func isSVG(content []byte) bool {
	dec := xml.NewDecoder(bytes.NewReader(content))
	dec.CharsetReader = nil // UTF-8 only
	for {
		t, err := dec.Token()
		if err != nil {
			return false
		}
		switch e := t.(type) {
		case xml.StartElement:
			return e.Name.Local == "svg" && (e.Name.Space == "" || e.Name.Space == "http://www.w3.org/2000/svg")
		case xml.CharData:
			if len(bytes.TrimSpace(bytes.TrimPrefix(e, []byte("\ufeff")))) > 0 {
				return false
			}
		}
	}
}
