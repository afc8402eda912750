package realkafka

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// oldestJava is the oldest release of Java that Apache Kafka 4.4.0's broker runs on.
const oldestJava = 17

// Jars returns the directory of the jars that project, a directory with a pom.xml, names. They are copied into a
// directory below cache, by Maven, unless an earlier call did so. The error says what the machine lacks.
func Jars(ctx context.Context, project, cache string) (string, error) {
	if err := checkJava(ctx); err != nil {
		return "", err
	}
	pom := filepath.Join(project, "pom.xml")
	text, err := os.ReadFile(pom)
	if err != nil {
		return "", err
	}
	jars, err := filepath.Abs(filepath.Join(cache, fmt.Sprintf("jars-%08x", crc32.ChecksumIEEE(text))))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := copyJars(ctx, pom, part); err != nil {
		return "", err
	}
	// A directory of that name is complete: it is renamed once Maven has ended.
	if err := os.Rename(part, jars); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return jars, os.Chmod(jars, 0o755)
}

func copyJars(ctx context.Context, pom, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("realkafka: Maven is missing: the first run copies Apache Kafka's jars with mvn, which is not on the PATH")
	}
	out, err := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DoutputDirectory="+dir, "-DincludeScope=runtime").CombinedOutput()
	if err != nil {
		return fmt.Errorf("realkafka: mvn dependency:copy-dependencies: %w\n%s", err, tail(out))
	}
	return nil
}

var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

func checkJava(ctx context.Context) error {
	java, err := exec.LookPath("java")
	if err != nil {
		return fmt.Errorf("realkafka: Java is missing: Apache Kafka needs JDK %d or later, and there is no java on the PATH", oldestJava)
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("realkafka: java -version: %w\n%s", err, tail(out))
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return nil
	}
	if version, err := strconv.Atoi(string(m[1])); err != nil || version < oldestJava {
		return fmt.Errorf("realkafka: Apache Kafka needs JDK %d or later, and %s is %s", oldestJava, java, m[1])
	}
	return nil
}

// tail is the end of an output that may be long.
func tail(out []byte) []byte {
	const most = 4000 // bytes
	return out[max(0, len(out)-most):]
}
