package feed

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

// A decoder keeps nothing of its text, whose buffer is used again.
func TestDecodedObjectsOutliveTheirText(t *testing.T) {
	text := strings.Repeat(`{"type":"ADDED","object":`+storetest.Pod("a", "one")+"}\n"+
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", 50)
	w := &watchStream{decoder: index.NewDecoder(noKind, podSchema, func() bool { return true }), meter: &Meter{}}
	r := rawjson.NewReader(strings.NewReader(text), maxObject)
	var got []*index.Decoded
	var then []string
	show := func(d *index.Decoded) string {
		return fmt.Sprintf("%+v %+v %s %v", *d.Record, d.Ref, d.Uncut(), d.GetObjectMeta().GetAnnotations())
	}
	for {
		e, err := w.event(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		d := e.Object.(*index.Decoded)
		got, then = append(got, d), append(then, show(d))
	}
	if len(got) != 100 {
		t.Fatalf("%d events", len(got))
	}
	for i, d := range got {
		if show(d) != then[i] {
			t.Fatalf("event %d was %s\nand is %s", i, then[i], show(d))
		}
	}
}

func TestFramesAreReadHoweverTheyAreWritten(t *testing.T) {
	const object = `{"metadata":{"name":"a"}}`
	for name, frame := range map[string]string{
		"AsKubeAPIServerDoes": `{"type":"ADDED","object":` + object + `}`,
		"OtherOrder":          `{"object":` + object + `,"type":"ADDED"}`,
		"Spaces":              `{ "type" : "ADDED", "object" : ` + object + ` }`,
		"Lines":               "{\n  \"type\": \"ADDED\",\n  \"object\": " + object + "\n}",
		"Escapes":             `{"type":"\u0041DDED","object":` + object + `}`,
		"MoreMembers":         `{"type":"ADDED","x":{},"object":` + object + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []string{"\n", "", "\r\n"} {
				w := &watchStream{decoder: index.NewDecoder(noKind, &index.Schema{}, func() bool { return false }), meter: &Meter{}}
				r := rawjson.NewReader(strings.NewReader(frame+end+frame+end), maxObject)
				for range 2 {
					e, err := w.event(r)
					if err != nil || e.Type != "ADDED" || e.Object.(*index.Decoded).Ref.Name != "a" {
						t.Errorf("%q: %+v, %v", end, e, err)
					}
				}
			}
		})
	}
}

var podSchema = &index.Schema{Fields: 2, Extract: func(json string, v []string) {
	v[0] = rawjson.GetText(json, "status", "phase")
	v[1] = rawjson.GetText(json, "status", "startTime")
}}
