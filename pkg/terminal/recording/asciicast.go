package recording

import (
	"fmt"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// The codes of events in a cast.
const (
	codeOutput = 'o'
	codeInput  = 'i'
	codeResize = 'r'
	codeMarker = 'm'
)

// The size of a terminal that has not said its own.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

// appendHeader appends the first line of a cast.
func appendHeader(dst []byte, size terminal.Size, at time.Time, title string) []byte {
	dst = fmt.Appendf(dst, `{"version":2,"width":%d,"height":%d,"timestamp":%d,"title":`, size.Width, size.Height, at.Unix())
	return append(rawjson.AppendString(dst, title), "}\n"...)
}

// appendEvent appends the line of an event, so long after the beginning.
func appendEvent(dst []byte, after time.Duration, code byte, data string) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendFloat(dst, max(after, 0).Seconds(), 'f', 6, 64)
	dst = append(dst, ',', '"', code, '"', ',')
	return append(rawjson.AppendString(dst, data), "]\n"...)
}
