import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { dirWith } from "../shared/config/files.ts";
import { CONTRACT } from "../shared/config/x402-files.ts";
import { COMPILER } from "../support/consumer.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { readDocument } from "./blocks.ts";
import type { Kinds } from "./kubernetes-kinds.ts";
import { LOADS } from "./loads.ts";

type Kind = keyof Kinds;
type Manifest = { kind: Kind; metadata: { name: string } };

const PAGE = "docs/operations/kubernetes/README.md";
const FOLDER = fileURLToPath(new URL("../../docs/operations/kubernetes/", import.meta.url));
const SECRETS = "/run/secrets/postern";

/** Renders the manifests with these components. */
function render(...components: string[]): Manifest[] {
  return renderAfter(() => {}, ...components);
}

/** Renders the manifests after `edit` has changed a copy of the folder. */
function renderAfter(edit: (dir: string) => void, ...components: string[]): Manifest[] {
  const dir = tempDir();
  cpSync(FOLDER, dir, { recursive: true });
  edit(dir);
  const file = join(dir, "kustomization.yaml");
  const text = readFileSync(file, "utf8");
  expect(text).toContain("components: []\n");
  writeFileSync(file, text.replace("components: []\n", `components: [${components.join(", ")}]\n`));
  const { stdout, stderr, status } = spawnSync(pathOf("kustomize"), ["build", dir], { encoding: "utf8" });
  expect([stderr, status]).toEqual(["", 0]);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
}

function ofKind<K extends Kind>(manifests: readonly Manifest[], kind: K): Kinds[K][] {
  return manifests.filter((manifest) => manifest.kind === kind) as unknown as Kinds[K][];
}

/** The parts of a Deployment that the tests check. */
function deploymentsOf(manifests: readonly Manifest[]) {
  return ofKind(manifests, "Deployment").map(({ metadata, spec }) => {
    const pod = spec!.template.spec!;
    return { name: metadata!.name!, replicas: spec!.replicas, pod, container: pod.containers[0]! };
  });
}

/** The names of the values in each secret that the page creates, by the secret's name. */
function createdSecrets(): Map<string, string[]> {
  const commands = readDocument(PAGE).matchAll(
    /create secret generic (\S+) ((?:--from-literal=[\w-]+=\S.*)+)/g,
  );
  return new Map(
    [...commands].map(([, name = "", values = ""]) => [
      name,
      [...values.matchAll(/--from-literal=([\w-]+)=/g)].map(([, key = ""]) => key),
    ]),
  );
}

describe("the manifests of docs/operations/kubernetes", needs("kustomize"), () => {
  test("fit the schemas of Kubernetes and KEDA, with every component", () => {
    const manifests = render("keda", "answer-without-redis");
    const kinds = fileURLToPath(new URL("kubernetes-kinds.ts", import.meta.url));
    const literals = manifests.map(
      (manifest, i) => `const m${i}: Kinds["${manifest.kind}"] = ${JSON.stringify(manifest)};`,
    );
    const file = join(tempDir(), "manifests.ts");
    writeFileSync(file, [`import type { Kinds } from ${JSON.stringify(kinds)};`, ...literals].join("\n"));
    const args = [
      "--noEmit",
      "--strict",
      "--module",
      "nodenext",
      "--allowImportingTsExtensions",
      "--pretty",
      "false",
    ];
    const { stdout } = spawnSync(
      process.execPath,
      [COMPILER, ...args, "--types", "", "--ignoreConfig", file],
      {
        encoding: "utf8",
      },
    );
    expect(stdout).toBe("");
  });

  test("select the pods of one workload each, and name ports and workloads that exist", () => {
    const manifests = render("keda");
    const workloads = [...ofKind(manifests, "Deployment"), ...ofKind(manifests, "StatefulSet")];
    const names = workloads.map(({ metadata }) => metadata!.name!);
    const selected = (labels: Record<string, string> = {}) =>
      workloads.filter(({ spec }) =>
        Object.entries(labels).every(([key, value]) => spec!.template.metadata!.labels![key] === value),
      );
    for (const { metadata, spec } of [...workloads, ...ofKind(manifests, "PodDisruptionBudget")])
      expect(selected(spec!.selector!.matchLabels).map((each) => each.metadata!.name)).toEqual([
        metadata!.name,
      ]);
    for (const { metadata, spec } of ofKind(manifests, "Service")) {
      const [workload, ...others] = selected(spec!.selector);
      expect([workload!.metadata!.name, others]).toEqual([metadata!.name, []]);
      const ports = workload!.spec!.template.spec!.containers[0]!.ports!.map(({ name }) => name);
      expect(ports).toEqual(expect.arrayContaining(spec!.ports!.map(({ targetPort }) => targetPort)));
    }
    const scaled = [...ofKind(manifests, "HorizontalPodAutoscaler"), ...ofKind(manifests, "ScaledObject")];
    const targets = scaled.map(({ spec }) => spec!.scaleTargetRef.name);
    expect(targets.toSorted()).toEqual(["postern-producer", "postern-webhooks", "postern-x402"]);
    for (const { name, replicas } of deploymentsOf(manifests))
      expect([name, replicas === undefined]).toEqual([name, targets.includes(name)]);
    for (const { spec } of ofKind(manifests, "NetworkPolicy"))
      for (const { values = [] } of spec!.podSelector!.matchExpressions ?? [])
        expect(names).toEqual(expect.arrayContaining([...values]));
  });

  test("start each process with options that the program has, and with its files and secrets a good configuration", () => {
    const manifests = render();
    const [{ data = {} } = {}] = ofKind(manifests, "ConfigMap");
    const created = createdSecrets();
    for (const { name, container, pod } of deploymentsOf(manifests)) {
      const [command = "", ...rest] = container.args ?? [];
      const program = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
      const help = spawnSync(process.execPath, [program, command, "--help"], { encoding: "utf8" });
      expect(help.status, name).toBe(0);
      for (const word of rest.filter((word) => word.startsWith("--"))) expect(help.stdout).toContain(word);

      const secret = pod.volumes?.find((volume) => volume.name === "secrets")?.secret?.secretName ?? "";
      expect([name, created.has(secret)]).toEqual([name, true]);
      const values = created.get(secret)?.map((key) => [key, secretFor(key)]) ?? [];
      const secrets = dirWith(Object.fromEntries(values));
      const filled = Object.entries(data).map(([file, text]) => [
        file,
        text.replaceAll(SECRETS, secrets).replaceAll(`"0x${"0".repeat(40)}"`, `"${CONTRACT}"`),
      ]);
      const { postern, warnings } = LOADS[command]!(dirWith(Object.fromEntries(filled)), {});
      expect([name, warnings]).toEqual([name, []]);

      const port = container.ports?.find((each) => each.name === "ops")?.containerPort;
      expect(postern.ops_address).toBe(`0.0.0.0:${port}`);
      expect([container.readinessProbe?.httpGet, container.livenessProbe?.httpGet]).toEqual([
        { path: "/readyz", port: "ops" },
        { path: "/livez", port: "ops" },
      ]);
    }
  });

  test("sell nothing once the lines that the page names are removed", () => {
    const [, list = ""] = readDocument(PAGE).split("remove these from `base/kustomization.yaml`:");
    const [names = ""] = list.split("\n3. ");
    const removed = [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    const manifests = renderAfter((dir) => {
      const file = join(dir, "base/kustomization.yaml");
      const lines = readFileSync(file, "utf8").split("\n");
      const kept = lines.filter((line) => !removed.includes(line.replace(/^ *- /, "")));
      expect(kept).toHaveLength(lines.length - removed.length);
      writeFileSync(file, kept.join("\n"));
    });
    const deployed = deploymentsOf(manifests).map(({ name }) => name);
    expect(deployed.toSorted()).toEqual(["postern-console", "postern-producer", "postern-webhooks"]);
    const [{ data = {} } = {}] = ofKind(manifests, "ConfigMap");
    expect(Object.keys(data).toSorted()).toEqual(["operator.toml", "postern.toml", "webhooks.toml"]);
  });

  test("have the Deployments, the container and the secrets that the page's commands name", () => {
    const page = readDocument(PAGE);
    const deployments = deploymentsOf(render());
    const named = [...page.matchAll(/\bdeploy(?:ment)?\/([\w-]+)/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(3);
    expect(deployments.map(({ name }) => name)).toEqual(expect.arrayContaining(named));
    const [, container = "", image] = /set image deployment\/postern-producer (\w+)=(\S+):/.exec(page) ?? [];
    const [producer] = deployments.filter(({ name }) => name === "postern-producer");
    expect(producer?.container).toMatchObject({
      name: container,
      image: expect.stringMatching(`^${image}:`),
    });
    const [, secret = "", key] = /get secret (\S+) -o jsonpath='\{\.data\.(\w+)\}'/.exec(page) ?? [];
    expect(createdSecrets().get(secret)).toContain(key);
  });

  test("keep their gateways in service without Redis only with the component for it", () => {
    const asked = deploymentsOf(render("answer-without-redis")).map(({ name, container }) => [
      name,
      container.readinessProbe?.httpGet,
    ]);
    const ready = { path: "/readyz", port: "ops" };
    const live = { path: "/livez", port: "http" };
    expect(Object.fromEntries(asked)).toEqual({
      ...{ "postern-webhooks": live, "postern-x402": live },
      ...{ "postern-console": ready, "postern-pricing": ready, "postern-producer": ready },
    });
  });

  test("give no container root, a capability, a root file system that it can write to, or memory without a limit", () => {
    const manifests = render();
    const workloads = [...ofKind(manifests, "Deployment"), ...ofKind(manifests, "StatefulSet")];
    expect(workloads).toHaveLength(6);
    for (const { metadata, spec } of workloads) {
      const { securityContext, automountServiceAccountToken, containers } = spec!.template.spec!;
      expect([metadata!.name, securityContext, automountServiceAccountToken]).toMatchObject([
        metadata!.name,
        { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
        false,
      ]);
      expect(containers).toMatchObject([
        {
          resources: { limits: { memory: expect.any(String) } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ]);
    }
  });

  test("give a pod longer to stop than docs/operations/stopping.md says that its process takes, with the drain of the manifests", () => {
    const manifests = render();
    const [{ data = {} } = {}] = ofKind(manifests, "ConfigMap");
    const drain = Number(/drain_secs = (\d+)/.exec(data["postern.toml"] ?? "")?.[1]) - 5;
    const table = readDocument("docs/operations/stopping.md");
    const rows = [
      ...table.matchAll(/^\| (webhooks gateway|payment gateway|producer) \| [^|]+ \| (\d+) s \|$/gm),
    ];
    expect(rows).toHaveLength(3);
    for (const [, process = "", seconds] of rows) {
      const command = process === "payment gateway" ? "x402" : process.split(" ")[0];
      const pod = deploymentsOf(manifests).find(({ container }) => container.args?.[0] === command)?.pod;
      expect(pod?.terminationGracePeriodSeconds, process).toBeGreaterThan(Number(seconds) + drain);
    }
  });

  test("give gateways and producers the memory that docs/sizing.md asks for", () => {
    const table = readDocument("docs/sizing.md");
    const memoryOf = (row: RegExp) => `${row.exec(table)?.[1]}Mi`;
    const limits = deploymentsOf(render()).map(({ name, container }) => [
      name,
      container.resources?.limits?.["memory"],
    ]);
    expect(Object.fromEntries(limits)).toMatchObject({
      "postern-webhooks": memoryOf(/^\| webhooks gateway, ten bodies .* at most (\d+) MiB/m),
      "postern-x402": memoryOf(/^\| payment gateway, ten paid bodies .* give it (\d+) /m),
      "postern-producer": memoryOf(/^\| producer, bodies of 25 MiB .* at most (\d+) MiB/m),
    });
  });

  test("scale producers by metrics that docs/metrics.md has, with the labels that it has", () => {
    const metrics = readDocument("docs/metrics.md");
    const [scaled] = ofKind(render("keda"), "ScaledObject");
    const queries = scaled!.spec!.triggers.map(({ metadata }) => metadata["query"] ?? "");
    const named = new Set(queries.flatMap((query) => query.match(/postern_\w+/g) ?? []));
    expect([...named].toSorted()).toEqual(["postern_queue_calls", "postern_queue_oldest_age_seconds"]);
    for (const name of named)
      expect(metrics).toMatch(
        new RegExp(`^\\| \`${name}\` \\| gauge \\| .*\`origin\`.*\`partition\`.* \\| max \\|`, "m"),
      );
  });
});

/** A value that the key accepts. */
function secretFor(key: string): string {
  return key === "rpc-url" ? "https://node.example.com" : randomBytes(32).toString("hex");
}
