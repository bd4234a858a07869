// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest cluster file that is read, in bytes.
const maxFile = 16 << 20

// Load reads and validates the cluster file at path.
func Load(path string) (*Cluster, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %d bytes: a cluster file has at most %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// Parse decodes and validates a cluster file; name stands in its errors.
func Parse(name string, data []byte) (*Cluster, error) {
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, decodeError(name, nil, err)
	}
	var c Cluster
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && err != io.EOF {
		return nil, decodeError(name, &tree, err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, fmt.Errorf("%s: more than one YAML document: a cluster file has one", name)
	}
	c.setDefaults()
	if err := c.validate(); err != nil {
		return nil, located(name, &tree, err)
	}
	return &c, nil
}

func (c *Cluster) setDefaults() {
	for i := range c.Services {
		c.Services[i].SetDefaults()
	}
}

var (
	lineOf   = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	notFound = regexp.MustCompile(`^field (.*) not found in type .*$`)
	blanks   = regexp.MustCompile(`\s+`)
)

// decodeError returns the decoder's first complaint as "file:line: text".
func decodeError(name string, tree *yaml.Node, err error) error {
	text := err.Error()
	var many *yaml.TypeError
	if errors.As(err, &many) && len(many.Errors) > 0 {
		text = many.Errors[0]
	}
	text = strings.TrimSpace(blanks.ReplaceAllString(text, " "))
	if m := lineOf.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s:%s: %s", name, m[1], notFound.ReplaceAllString(m[2], `unknown field "$1"`))
	}
	// Addresses and networks parse their own text: their error quotes it but
	// does not know where it stands.
	if line := lineQuoted(tree, text); line > 0 {
		return fmt.Errorf("%s:%d: %s", name, line, text)
	}
	return fmt.Errorf("%s: %s", name, text)
}

// lineQuoted returns the line of the first scalar that text quotes, or 0.
func lineQuoted(node *yaml.Node, text string) int {
	if node == nil {
		return 0
	}
	if node.Kind == yaml.ScalarNode && node.Value != "" && strings.Contains(text, strconv.Quote(node.Value)) {
		return node.Line
	}
	for _, child := range node.Content {
		if line := lineQuoted(child, text); line > 0 {
			return line
		}
	}
	return 0
}

// located adds file and line to a validation error. A field that is absent is
// placed at what should hold it.
func located(name string, tree *yaml.Node, err error) error {
	var field *FieldError
	if !errors.As(err, &field) || len(tree.Content) == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s:%d: %w", name, lineAt(tree.Content[0], field.Path), err)
}

var step = regexp.MustCompile(`^(?:\.?([^.\[]+)|\[(\d+)\])`)

// lineAt returns the line of the node at path (a.b[2].c), or of the last one on
// the way that exists.
func lineAt(node *yaml.Node, path string) int {
	line := node.Line
	for path != "" {
		m := step.FindStringSubmatch(path)
		if m == nil {
			return line
		}
		path = path[len(m[0]):]
		key, value := child(node, m[1], m[2])
		if value == nil {
			return line
		}
		line, node = key.Line, value
	}
	return line
}

// child returns what node holds under a name or an index: where it stands, and
// its value.
func child(node *yaml.Node, name, index string) (key, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if i, err := strconv.Atoi(index); err == nil && node.Kind == yaml.SequenceNode && i < len(node.Content) {
		return node.Content[i], node.Content[i]
	}
	if node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i], node.Content[i+1]
			}
		}
	}
	return nil, nil
}
