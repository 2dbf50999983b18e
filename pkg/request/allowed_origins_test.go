package request_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

func TestOriginsAreComparedAsBrowsersWriteThem(t *testing.T) {
	ours := request.Origins{"https://console.example", "http://10.0.0.1:30880"}
	for name, test := range map[string]struct {
		origins []string
		want    bool
	}{
		"the address of the request":         {[]string{"http://api.example:9090"}, true},
		"the same over https":                {[]string{"https://api.example:9090"}, true},
		"one of ours":                        {[]string{"https://console.example"}, true},
		"in capitals":                        {[]string{"https://CONSOLE.example"}, true},
		"with the usual port":                {[]string{"https://console.example:443"}, true},
		"one of ours with a port":            {[]string{"http://10.0.0.1:30880"}, true},
		"another scheme":                     {[]string{"http://console.example"}, false},
		"another port":                       {[]string{"https://console.example:8443"}, false},
		"none":                               {nil, false},
		"an opaque one":                      {[]string{"null"}, false},
		"two":                                {[]string{"https://console.example", "https://console.example"}, false},
		"two in one":                         {[]string{"https://console.example https://evil.example"}, false},
		"a longer name":                      {[]string{"https://console.example.evil.example"}, false},
		"a user":                             {[]string{"https://console.example@evil.example"}, false},
		"a user at the right place":          {[]string{"https://evil@console.example"}, false},
		"a path":                             {[]string{"https://console.example/"}, false},
		"another scheme that browsers know":  {[]string{"file://console.example"}, false},
		"an extension":                       {[]string{"chrome-extension://console.example"}, false},
		"the host of the request elsewhere":  {[]string{"https://api.example:9090.evil.example"}, false},
		"the host of the request as a user":  {[]string{"https://api.example:9090@evil.example"}, false},
		"a wildcard":                         {[]string{"https://*"}, false},
		"nothing":                            {[]string{""}, false},
		"the host of the request, no scheme": {[]string{"//api.example:9090"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://api.example:9090/", nil)
			if test.origins != nil {
				r.Header["Origin"] = test.origins
			}
			if got := ours.Match(r); got != test.want {
				t.Errorf("%q: %v", test.origins, got)
			}
		})
	}
}

func TestAnOriginIsNoMoreThanSchemeAndHost(t *testing.T) {
	for in, want := range map[string]string{
		"https://Console.Example:443": "https://console.example", "http://10.0.0.1:30880": "http://10.0.0.1:30880", "http://[::1]:80": "http://[::1]",
		"https://*.example": "", "https://a.example/": "", "https://a.example?": "", "a.example": "", "null": "", "": "", "https://": "",
		"https://u@a.example": "", "ftp://a.example": "", "https://a.example,https://b.example": "",
	} {
		got, err := request.ParseOrigin(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	if got := request.OriginOf("https://console.example:443/base"); got != "https://console.example" {
		t.Errorf("the origin of an address is %q", got)
	}
	if got := request.OriginOf("javascript:alert(1)"); got != "" {
		t.Errorf("the origin of no page is %q", got)
	}
}
