package page

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quiet is the margin that ISO/IEC 18004 asks for, in modules.
const quiet = 4

// QR draws a text as a QR code: an SVG of one path, which loads no other file.
func QR(text string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", fmt.Errorf("draw a QR code of %d bytes: %w", len(text), err)
	}
	size := code.Bounds().Dx()
	var b strings.Builder
	side := strconv.Itoa(size + 2*quiet)
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ` + side + ` ` + side +
		`" shape-rendering="crispEdges" aria-hidden="true"><path fill="#000" d="`)
	dark := func(x, y int) bool { r, _, _, _ := code.At(x, y).RGBA(); return r == 0 }
	for y := range size {
		for x := 0; x < size; x++ {
			start := x
			for x < size && dark(x, y) {
				x++
			}
			if x > start { // a run of dark modules is one rectangle
				fmt.Fprintf(&b, "M%d %dh%dv1H%dz", start+quiet, y+quiet, x-start, start+quiet)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()), nil // #nosec G203: numbers and nothing else
}
