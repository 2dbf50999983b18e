package dockerfile

import (
	"slices"
	"strings"
	"testing"
)

const good = `# syntax=docker/dockerfile:1
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
RUN go build -o /out/ .

FROM scratch AS base
COPY --from=build /etc/passwd /etc/passwd
USER 65532:65532

FROM base AS one
COPY --from=build /out/one /one
EXPOSE 80 443
ENTRYPOINT ["/one"]

FROM base AS two
COPY --from=0 /out/two /two
ENTRYPOINT ["/two"]
`

func TestTheTargetsOfADockerfile(t *testing.T) {
	targets, problems, err := Check([]byte(good))
	if err != nil || len(problems) != 0 {
		t.Fatalf("%v, %v", problems, err)
	}
	if len(targets) != 2 {
		t.Fatalf("the targets are %+v", targets)
	}
	one, two := targets[0], targets[1]
	if one.Name != "one" || one.User != "65532:65532" || !slices.Equal(one.Entrypoint, []string{"/one"}) || !slices.Equal(one.Ports, []string{"443", "80"}) {
		t.Errorf("the first target is %+v", one)
	}
	if two.Name != "two" || two.User != "65532:65532" || len(two.Ports) != 0 {
		t.Errorf("the second target is %+v", two)
	}
}

func TestProblemsAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ old, fresh, want string }{
		"two stages of a name":     {"AS two", "AS one", "line 17: there are two stages one"},
		"no such stage":            {"--from=0", "--from=9", "line 18: there is no stage 9 before this one"},
		"an image without a tag":   {"golang:1.26", "golang", "line 3: golang is neither an earlier stage nor an image with a tag"},
		"the latest image":         {"golang:1.26", "registry:5000/golang:latest", "line 3: registry:5000/golang:latest is neither"},
		"a stage that is misspelt": {"--from=build /out/one", "--from=biuld /out/one", "line 13: biuld is neither an earlier stage"},
		"an unknown variable":      {"${GO_IMAGE}", "${GOIMAGE}", "line 3: GOIMAGE is used, and no ARG before the first stage has it"},
		"an ARG without a default": {"ARG GO_IMAGE=golang:1.26", "ARG GO_IMAGE", "line 2: the argument GO_IMAGE has no default"},
		"root":                     {"USER 65532:65532", "USER 0", "line 12: the stage one runs as root"},
		"a user's name":            {"USER 65532:65532", "USER nonroot", `line 12: the stage one runs as "nonroot"`},
		"no user":                  {"USER 65532:65532\n", "", `the stage one runs as ""`},
		"a shell":                  {`ENTRYPOINT ["/one"]`, "ENTRYPOINT /one", "line 15: ENTRYPOINT without brackets"},
		"a shell of CMD":           {`ENTRYPOINT ["/one"]`, "ENTRYPOINT [\"/one\"]\nCMD -v 4", "line 16: CMD without brackets"},
		"no entrypoint":            {`ENTRYPOINT ["/one"]`, "", "line 12: the stage one has no ENTRYPOINT"},
		"a relative folder":        {"WORKDIR /src", "WORKDIR src", "line 4: WORKDIR src"},
		"a secret":                 {"COPY . .", "ARG NPM_TOKEN", "line 5: the variable NPM_TOKEN looks like a secret"},
		"a secret of the image":    {"USER 65532", "ENV DB_PASSWORD=x\nUSER 65532", "line 10: the variable DB_PASSWORD looks like a secret"},
		"a download":               {"COPY . .", "ADD https://example.com/x.tar /", "line 5: ADD of https://example.com/x.tar has no --checksum"},
		"casing":                   {"AS base", "as base", "FromAsCasing"},
		"a stage in capitals":      {"AS two", "AS Two", "StageNameCasing"},
		"an old instruction":       {"COPY . .", "MAINTAINER ann", "MaintainerDeprecated"},
		"an empty continuation":    {"RUN go build -o /out/ .", "RUN go build \\\n\n  -o /out/ .", "Empty continuation line"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, c.old) {
				t.Fatalf("there is no %q", c.old)
			}
			_, problems, err := Check([]byte(strings.Replace(good, c.old, c.fresh, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), c.want) }) {
				t.Errorf("got %q, want %q", problems, c.want)
			}
		})
	}
}

func TestWhatIsNoDockerfileIsAnError(t *testing.T) {
	for _, text := range []string{"", "RUN true", "FROM scratch\nRUM true", "FROM", "FROM scratch\nCOPY a"} {
		if _, _, err := Check([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
