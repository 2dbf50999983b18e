package httpcache

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// RFC 9110, 12.5.3.
func TestAcceptsGzip(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "gzip, deflate, br": true, "br;q=1.0, gzip;q=0.8, *;q=0.1": true,
		"*": true, "*;q=0": false, "gzip;q=0": false, "gzip;q=0.0, *": false, "gzip;q=0.001": true, "gzip ; q=0.5": true, "gzip; Q=0.5": true,
		"identity": false, "deflate": false, "": false, "identity;q=0.5, gzip;q=0.5": true, "identity, gzip;q=0.5": false,
		"gzip;q=2": false, "gzip;q=-1": false, "gzip;q=x": false, "gzip;x=1": false, "gzip;q=NaN": false, ",,gzip,": true, "gzipped": false,
		"deflate, *;q=0.5": true, "identity;q=0, gzip": true,
	} {
		if got := AcceptsGzip(http.Header{"Accept-Encoding": {value}}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if AcceptsGzip(http.Header{}) || !AcceptsGzip(http.Header{"Accept-Encoding": {"br", "gzip"}}) {
		t.Error("no header, or one of several lines")
	}
}

func FuzzAcceptsGzip(f *testing.F) {
	for _, s := range []string{"gzip;q=0.5,*", "identity;q=,gzip", ";;,", "gzip;q=1e-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if AcceptsGzip(http.Header{"Accept-Encoding": {value}}) && !strings.Contains(value, "*") && !strings.Contains(strings.ToLower(value), "gzip") {
			t.Errorf("%q asks for no gzip", value)
		}
	})
}

func TestCRCsOfPartsGiveThatOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		text := make([]byte, r.IntN(5000))
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		at := r.IntN(len(text) + 1)
		got := multiply(shiftCRC(int64(len(text)-at)), crc32.ChecksumIEEE(text[:at])) ^ crc32.ChecksumIEEE(text[at:])
		if want := crc32.ChecksumIEEE(text); got != want {
			t.Fatalf("%d and %d bytes: %08x, want %08x", at, len(text)-at, got, want)
		}
	}
}

func TestPackedTextIsOneMemberBehindAnyHead(t *testing.T) {
	p := newCompressorPool(1)
	x := p.Get()
	if p.Get() != nil {
		t.Error("more presses than there may be")
	}
	text := strings.Repeat(`{"kind":"Pod"},`, 10_000)
	kept, err := x.Compress(func(to *ChunkWriter) { to.WriteText(text) })
	if err != nil {
		t.Fatal(err)
	}
	p.Put(x)
	if x = p.Get(); x == nil {
		t.Fatal("a press that was given back is not there")
	}
	if len(kept.Blocks) > len(text)/20 {
		t.Errorf("%d bytes of %d", len(kept.Blocks), len(text))
	}
	for _, n := range []int{0, 1, 200, maxStored, maxStored + 1, 3*maxStored + 7} {
		head := strings.Repeat("h", n)
		c := kept.After([]byte(head))
		whole := bytes.Join([][]byte{c.Before, c.Items, c.after}, nil)
		if int64(len(whole)) != c.Length() || string(unzip(t, whole)) != head+text {
			t.Errorf("a head of %d bytes", n)
		}
	}
}

// unzip reads exactly one member of gzip.
func unzip(t testing.TB, b []byte) []byte {
	t.Helper()
	in := bytes.NewReader(b)
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	out, err := io.ReadAll(r)
	if err != nil || in.Len() != 0 {
		t.Fatalf("%v, %d bytes behind the end", err, in.Len())
	}
	return out
}

// BenchmarkGzip compares an answer of 64 KiB whose items are already compressed with one that is compressed each time.
func BenchmarkGzip(b *testing.B) {
	head, text := bytes.Repeat([]byte("h"), 200), strings.Repeat(`{"kind":"Pod","metadata":{"name":"web-1"}},`, 1500)
	x := newCompressorPool(1).Get()
	write := func(to *ChunkWriter) { to.WriteText(text) }
	b.Run("cached", func(b *testing.B) {
		items, err := x.Compress(write)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			items.After(head)
		}
	})
	b.Run("each-time", func(b *testing.B) {
		for b.Loop() {
			x.reset(&x.out)
			x.out.Reset()
			if _, err := x.Compress(write); err != nil {
				b.Fatal(err)
			}
		}
	})
}
