package config_test

import (
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestWhereTheFilesOfTheStoreAre(t *testing.T) {
	const keys = ", accessKeyID: id, secretAccessKey: canary, sessionToken: canary"
	for text, want := range map[string]string{
		"":                         "",
		`endpoint: ""`:             "",
		"endpoint: s3.example.com": "s3.example.com true",
		"endpoint: 's3.example.com:9000', disableSSL: true": "s3.example.com:9000 false",
		"endpoint: 'https://s3.example.com/'":               "s3.example.com true",
		"endpoint: 'http://[::1]:9000'":                     "[::1]:9000 false",
	} {
		c, err := config.Parse([]byte("s3: {"+strings.TrimPrefix(text+keys, ", ")+"}"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		host, tls := c.S3.Address()
		if got := fmt.Sprint(host, " ", tls); host != "" && got != want || host == "" && want != "" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if c.S3.Bucket != "uploads" || c.S3.Region != "us-east-1" || !c.S3.ForcePathStyle || !c.S3.NewFiles {
			t.Errorf("%s: %+v", text, c.S3)
		}
		if strings.Contains(fmt.Sprintf("%+v %#v", c.S3, c.S3), "canary") {
			t.Errorf("a key is printed: %+v", c.S3)
		}
	}
	for text, want := range map[string]string{
		"endpoint: s3, accessKeyID: id":                                "s3.accessKeyID",
		"endpoint: s3, secretAccessKey: canary":                        "s3.accessKeyID",
		"endpoint: 'https://user:canary@s3'" + keys:                    "s3.endpoint",
		"endpoint: 'https://s3/path'" + keys:                           "s3.endpoint",
		"endpoint: 's3/path'" + keys:                                   "s3.endpoint",
		"endpoint: 'user:canary@s3'" + keys:                            "s3.endpoint",
		"endpoint: 'https://s3', disableSSL: true" + keys:              "s3.disableSSL",
		"endpoint: s3, bucket: ../x" + keys:                            "s3.bucket",
		"endpoint: s3, bucket: 10.0.0.1" + keys:                        "s3.bucket",
		"endpoint: s3, certificateAuthority: /none/ca.pem" + keys:      "s3.certificateAuthority",
		"endpoint: s3, forcePathStyle: x, certificateAuthority: /none": "s3",
	} {
		_, err := config.Parse([]byte("s3: {"+text+"}"), nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
