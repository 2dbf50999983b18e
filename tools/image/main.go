// Command image builds the container images of ks-apiserver and ks-controller-manager without a container engine, and pushes them to a
// registry. It checks the Dockerfile, too.
//
// An image is a static program, the CAs that Mozilla trusts, and a user that is not root. Two builds of one commit with one version of
// Go have one digest, in any folder, on any machine and day.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: image build [flags]    build both images into a folder, and print their digests
       image push [flags]     push what was built to a registry, and print the digests
       image lint FILE...     check Dockerfiles
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
}

// run executes the command in the arguments.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a command\n%s", usage)
	}
	switch args[0] {
	case "build":
		return runBuild(ctx, args[1:])
	case "push":
		return runPush(ctx, args[1:])
	case "lint":
		return runLint(args[1:])
	}
	return fmt.Errorf("there is no command %q\n%s", args[0], usage)
}

func runBuild(ctx context.Context, args []string) error {
	b := Build{Log: os.Stderr, Describe: writeSBOM}
	var platforms, created string
	f := flag.NewFlagSet("build", flag.ExitOnError)
	f.StringVar(&b.Root, "root", ".", "the `folder` of the module")
	f.StringVar(&b.Out, "out", "bin/images", "the `folder` that the images are written to")
	f.StringVar(&platforms, "platforms", "linux/amd64", "for which `systems`, with commas between")
	f.StringVar(&b.Registry, "registry", "kapis", "the `prefix` of the images' names in the archives for docker load")
	f.StringVar(&b.Tag, "tag", "dev", "the `tag` of the images")
	f.StringVar(&b.Version, "version", "dev", "the `version` that the labels name")
	f.StringVar(&b.Revision, "revision", "", "the `commit` that the labels name")
	f.StringVar(&b.Source, "source", "", "the `URL` of the source that the labels name")
	f.StringVar(&created, "created", "", "the `time` of the commit (RFC 3339; default 1970)")
	f.StringVar(&b.LinkerFlags, "ldflags", "", "`flags` for the linker")
	if err := f.Parse(args); err != nil {
		return err
	}
	b.Created = time.Unix(0, 0).UTC()
	if created != "" {
		at, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return fmt.Errorf("read --created: %w", err)
		}
		b.Created = at.UTC()
	}
	b.Platforms = strings.Split(platforms, ",")
	digests, err := b.Run(ctx)
	if err != nil {
		return err
	}
	printDigests(digests)
	return nil
}

func runPush(ctx context.Context, args []string) error {
	p := Push{Log: os.Stderr}
	f := flag.NewFlagSet("push", flag.ExitOnError)
	f.StringVar(&p.From, "from", "bin/images", "the `folder` that the images were built in")
	f.StringVar(&p.Registry, "registry", "", "the `registry` and the prefix of the images' names in it, as registry.example.com/team")
	f.StringVar(&p.Tag, "tag", "dev", "the `tag` of the images")
	if err := f.Parse(args); err != nil {
		return err
	}
	digests, err := p.Run(ctx)
	if err != nil {
		return err
	}
	printDigests(digests)
	return nil
}

// Digest is the name of a program and the digest of its image.
type Digest struct{ Name, Digest string }

func printDigests(digests []Digest) {
	for _, d := range digests {
		fmt.Println(d.Name, d.Digest)
	}
}
