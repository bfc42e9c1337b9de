import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

export type Image = {
  /** Root directory of the image's files. */
  readonly files: string;
  /** Working directory of the image's processes. */
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly healthcheck: readonly string[];
  readonly user: string | undefined;
};

type Stage = { name: string | undefined; files: string; workdir: string; env: Record<string, string> };

/** Returns the instructions of the Dockerfile, each as one line. */
export function instructions(): { word: string; rest: string }[] {
  const text = readFileSync(join(root, "Dockerfile"), "utf8").replaceAll("\\\n", " ");
  return text.split("\n").flatMap((line) => {
    const [, word = "", rest = ""] = /^([A-Z]+) +(.*)$/.exec(line) ?? [];
    return word === "" ? [] : [{ word, rest }];
  });
}

/**
 * Follows the Dockerfile without Docker. Each stage is a directory that is empty at first. COPY copies into it, and RUN
 * runs in it. This machine's files replace those of the base image. Throws for an unknown instruction.
 */
export function followDockerfile(): Image {
  const stages: Stage[] = [];
  const last = {
    entrypoint: [] as string[],
    healthcheck: [] as string[],
    user: undefined as string | undefined,
  };
  const current = (): Stage => {
    const stage = stages.at(-1);
    if (stage === undefined) throw new Error("the Dockerfile does not begin with FROM");
    return stage;
  };
  const steps: Record<string, (rest: string) => void> = {
    FROM(rest) {
      const files = tempDir();
      chmodSync(files, 0o755);
      stages.push({ name: / AS (\S+)/.exec(rest)?.[1], files, workdir: files, env: {} });
    },
    WORKDIR(rest) {
      current().workdir = join(current().files, rest);
      mkdirSync(current().workdir, { recursive: true });
    },
    COPY(rest) {
      const [, from] = /^--from=(\S+) /.exec(rest) ?? [];
      const stage = stages.find(({ name }) => from !== undefined && name === from);
      const words = rest.replace(/^--from=\S+ /, "").split(/ +/);
      const target = join(current().workdir, words.pop() ?? "");
      for (const word of words) {
        const source = stage === undefined ? join(root, word) : join(stage.files, word);
        // Docker copies the content of a directory, not the directory itself.
        const isFileInto = statSync(source).isFile() && (words.length > 1 || rest.endsWith("/"));
        cpSync(source, isFileInto ? join(target, basename(word)) : target, {
          recursive: true,
          verbatimSymlinks: true,
        });
      }
    },
    RUN(rest) {
      const { workdir, env } = current();
      const npm = { npm_config_prefer_offline: "true", npm_config_update_notifier: "false" };
      const ran = spawnSync("sh", ["-c", rest], {
        cwd: workdir,
        env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...npm, ...env },
        encoding: "utf8",
      });
      if (ran.status !== 0) throw new Error(`RUN ${rest}: ${ran.stdout}${ran.stderr}`);
    },
    ENV(rest) {
      const [name = "", ...value] = rest.split("=");
      current().env[name] = value.join("=");
    },
    USER(rest) {
      last.user = rest;
    },
    HEALTHCHECK(rest) {
      last.healthcheck = JSON.parse(rest.slice(rest.indexOf("["))) as string[];
    },
    ENTRYPOINT(rest) {
      last.entrypoint = JSON.parse(rest) as string[];
    },
    EXPOSE() {},
    CMD() {},
  };
  for (const { word, rest } of instructions()) {
    const step = steps[word];
    if (step === undefined) throw new Error(`${word} is not known here`);
    step(rest);
  }
  const { files, workdir, env } = current();
  return { files, workdir, env, ...last };
}
