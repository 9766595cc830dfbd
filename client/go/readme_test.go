package listwatch_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The README's program is at most 20 lines, compiles as it stands, and, where
// LISTWATCH_ADDRESS names a server, does what the README says.
func TestReadmeProgram(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\n")
	program, _, _ := strings.Cut(rest, "```")
	if lines := strings.Count(program, "\n"); lines == 0 || lines > 20 {
		t.Errorf("%d lines", lines)
	}
	folder := t.TempDir()
	source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "readme")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if os.Getenv("LISTWATCH_ADDRESS") == "" {
		t.Skip("no server: LISTWATCH_ADDRESS is not set")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, want := range []string{"init_begin <nil>", "init_apply /hello at revision ", "init_done at revision "} {
		if !strings.Contains(string(output), want) {
			t.Errorf("%q is missing from %s", want, output)
		}
	}
}
