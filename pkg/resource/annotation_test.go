package resource

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/page"
)

func TestAnnotate(t *testing.T) {
	for name, c := range map[string]struct{ in, value, want string }{
		"AmongOthers": {`{"metadata":{"name":"x","annotations":{"a":"b"}},"spec":{}}`, "v",
			`{"metadata":{"name":"x","annotations":{"k":"v","a":"b"}},"spec":{}}`},
		"InNone":             {`{"metadata":{"name":"x"}}`, "v", `{"metadata":{"annotations":{"k":"v"},"name":"x"}}`},
		"InEmptyOnes":        {`{"metadata":{"annotations":{}}}`, "v", `{"metadata":{"annotations":{"k":"v"}}}`},
		"InPlaceOfAnother":   {`{"metadata":{"annotations":{"k":"old"}}}`, "v", `{"metadata":{"annotations":{"k":"v"}}}`},
		"NoValueTakesItAway": {`{"metadata":{"annotations":{"k":"old","a":"b"}}}`, "", `{"metadata":{"annotations":{"a":"b"}}}`},
		"QuotedAsJSON":       {`{"metadata":{"annotations":{}}}`, "a\"b\n", `{"metadata":{"annotations":{"k":"a\"b\n"}}}`},
		"NoMetadata":         {`{"spec":{}}`, "v", `{"spec":{}}`},
		"NullAnnotations":    {`{"metadata":{"name":"x","annotations":null}}`, "", `{"metadata":{"name":"x","annotations":null}}`},
		"NoObject":           {`[]`, "v", `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := page.Annotate(shownText(t, c.in), []string{"k"}, []string{c.value}).String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}
