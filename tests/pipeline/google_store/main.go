// A store that speaks as Google's does, with the files of a folder in it: buckets are its subfolders. Says its port.
package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	root := os.Args[1]
	var objects []fakestorage.Object
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		bucket, name, _ := strings.Cut(filepath.ToSlash(inside), "/")
		content, err := os.ReadFile(path)
		objects = append(objects, fakestorage.Object{
			ObjectAttrs: fakestorage.ObjectAttrs{BucketName: bucket, Name: name},
			Content:     content,
		})
		return err
	})
	if err != nil {
		panic(err)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		InitialObjects: objects, Scheme: "http", Host: "127.0.0.1", Port: 0, PublicHost: "127.0.0.1",
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(server.URL())
	// Whoever started this goes, and its end of the pipe with it.
	for reader := bufio.NewReader(os.Stdin); ; {
		if _, err := reader.ReadByte(); err != nil {
			return
		}
	}
}
