package listwatch

import (
	"os"
	"regexp"
	"testing"
)

func TestVersionIsTheWorkspaces(t *testing.T) {
	manifest, err := os.ReadFile("../../Cargo.toml")
	if err != nil {
		t.Skip("not within the repository")
	}
	found := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(manifest)
	if found == nil || string(found[1]) != Version {
		t.Errorf("this is %s, the workspace %s", Version, found)
	}
}
