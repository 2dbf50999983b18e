package index

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

// benchPod is a pod of about the size that real ones have: 5.6 KB without managedFields.
func benchPod(i int) string {
	pad := func(n int) string {
		var b strings.Builder
		for k := 0; b.Len() < n; k++ {
			fmt.Fprintf(&b, `{"name":"ENV_%d","value":"some value %d"},`, k, k)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d-7d4b9c","namespace":"ns-%d","uid":"2f1e0c3a-%08d","resourceVersion":"%d",`+
		`"creationTimestamp":"2026-01-02T03:%02d:%02dZ","labels":{"app":"web-%d","pod-template-hash":"7d4b9c%d","tier":"t%d"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-%d","uid":"rs-%d","controller":true}],`+
		`"managedFields":[{"manager":"kubelet","fieldsV1":{%s}}]},"spec":{"nodeName":"node-%d","containers":[{"name":"c","env":[%s]}]},`+
		`"status":{"phase":"Running","podIP":"10.0.%d.%d","startTime":"2026-01-02T03:04:05Z"}}`,
		i, i%100, i, i+1, i/60%60, i%60, i%500, i%500, i%4, i%500, i%500, strings.TrimSuffix(strings.Repeat(`"f:x":{"f:y":{}},`, 110), ","),
		i%50, pad(5000), i/250%250, i%250)
}

var benchSchema = &Schema{Fields: 3, Indexed: []int{0, 2}, Ordered: []int{1}, Extract: func(json string, v []string) {
	phase.Extract(json, v)
	v[2] = "node"
}}

// Memory: what 2000 pods cost, besides their JSON. The bound is the goal of the project.
func TestHeapForAnObject(t *testing.T) {
	const n = 2000
	objects := make([]*Incoming, 0, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		objects = append(objects, decodeText(t, benchSchema, benchPod(i)))
	}
	c := NewCollection(benchSchema, clock.RealClock{})
	c.Replace(objects, "1")
	clear(objects) // the collection holds what is to be measured
	runtime.GC()
	runtime.ReadMemStats(&after)
	snap := c.current.Load()
	ratio := float64(after.HeapAlloc-before.HeapAlloc) / float64(snap.Bytes())
	t.Logf("%d bytes an object, %.3f x its JSON of %d", (after.HeapAlloc-before.HeapAlloc)/n, ratio, snap.Bytes()/n)
	if ratio > 1.30 {
		t.Errorf("%.2f bytes of heap for a byte of JSON", ratio)
	}
	runtime.KeepAlive(c)
}

func BenchmarkDecode(b *testing.B) {
	text := benchPod(1)
	d := NewDecoder(noKind, benchSchema, func() bool { return false })
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(text, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvent is an event of a kind with many objects: the frame is decoded, stored, indexed, published.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := filled(b, n)
			d := NewDecoder(noKind, benchSchema, func() bool { return false })
			texts := make([]string, 64)
			for i := range texts {
				texts[i] = strings.Replace(benchPod(i*n/64), "Running", []string{"Running", "Pending"}[i%2], 1)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o, err := d.Decode(texts[i%64], "")
				if err != nil {
					b.Fatal(err)
				}
				c.Set(o.Incoming)
			}
		})
	}
}

func filled(b testing.TB, n int) *Collection {
	c := NewCollection(benchSchema, clock.RealClock{})
	objects := make([]*Incoming, 0, n)
	for i := range n {
		text := benchPod(i)
		if n > 20_000 { // the trees are what grows; spare the memory
			text = strings.Replace(text, text[strings.Index(text, `"env":[`):strings.Index(text, `]}]},"status"`)], `"env":[`, 1)
		}
		objects = append(objects, decodeText(b, benchSchema, text))
	}
	c.Replace(objects, "1")
	return c
}

func BenchmarkPage(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		s := filled(b, n).current.Load()
		for _, at := range []struct {
			name string
			i    int
			r    Range
		}{
			{"first", n - 1, s.ByCreated(All())}, {"middle", n / 2, s.ByCreated(All())}, {"namespace", 50, s.ByCreated(InNamespace("ns-7"))},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, at.name), func(b *testing.B) {
				for b.Loop() {
					left := 10
					at.r.Walk(at.i, true, func(ref *Ref) bool {
						left--
						return s.Record(ref) != nil && left > 0
					})
				}
			})
		}
		b.Run(fmt.Sprintf("%d/rank", n), func(b *testing.B) {
			k := rangeKey{InNamespace("ns-7"), orderCreated}
			for b.Loop() {
				s.mu.Lock()
				clear(s.ranges)
				s.mu.Unlock()
				s.find(k)
			}
		})
	}
}
