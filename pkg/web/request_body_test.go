package web_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"kapis.dev/ks-apiserver/pkg/web"
)

func TestBodiesAreReadUpToTheirBound(t *testing.T) {
	cut := iotest.ErrReader(errors.New("the connection is gone"))
	for claim, c := range map[string]struct {
		body io.Reader
		want string
		code int32
	}{
		"SpaceAroundIsTrimmed":   {body: strings.NewReader(" {} \n"), want: "{}"},
		"NothingIsNothing":       {body: strings.NewReader(""), want: ""},
		"AsLongAsItMayBe":        {body: strings.NewReader("12345678"), want: "12345678"},
		"OneByteMore":            {body: strings.NewReader("123456789"), code: http.StatusRequestEntityTooLarge},
		"SpaceCounts":            {body: strings.NewReader("{}       "), code: http.StatusRequestEntityTooLarge},
		"LongerThanTheServer":    {body: http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("12345")), 4), code: http.StatusRequestEntityTooLarge},
		"ABodyThatDoesNotEnd":    {body: io.MultiReader(strings.NewReader("1"), cut), code: http.StatusBadRequest},
		"AnErrorBeforeAnyThings": {body: cut, code: http.StatusBadRequest},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := web.ReadBody(httptest.NewRequest(http.MethodPost, "/", c.body), 8)
			switch {
			case c.code == 0 && (err != nil || string(got) != c.want):
				t.Errorf("read %q (%v), expected %q", got, err, c.want)
			case c.code != 0 && (err == nil || web.Status(err).Code != c.code || got != nil):
				t.Errorf("read %q (%v), expected a %d", got, err, c.code)
			}
		})
	}
}

func TestKnownParametersAreReturnedAndAlmostKnownOnesRefused(t *testing.T) {
	for query, want := range map[string]url.Values{
		"":                            {},
		"dryRun=All&pretty=1":         {"dryRun": {"All"}},
		"dryRun=All&dryRun=x&limit=2": {"dryRun": {"All", "x"}},
		"fieldManager=a":              {"fieldManager": {"a"}},
		"dryrun=All":                  nil,
		"dryRun=All&DryRun=All":       nil,
		"fieldvalidation=Strict":      nil,
	} {
		got, err := web.WriteParameters(httptest.NewRequest(http.MethodPost, "/?"+query, nil))
		if !reflect.DeepEqual(got, want) || (want == nil) != (err != nil) {
			t.Errorf("of %q the parameters are %v (%v), expected %v", query, got, err, want)
		}
	}
}
