import { existsSync, readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url);
const read = (file: string) => readFileSync(new URL(file, root), "utf8");

/** Tools that do the same for all callers, and files of types, constants and Lua. The document leaves them out. */
const TOOLS = [
  /^shared\/(chain|config|http|platform|pricing|redis|telemetry\/(events|rejected)|webhook-auth)\//,
  /^shared\/call\/[^/]+$/,
  /^shared\/(queue\/(protocol|queue-name|backend|lua-constants)|payments\/(payment|scripts)|call\/results\/(limits|result))\.ts$/,
  /^services\/producer\/consumer\/slots\.ts$/,
  /\.lua$/,
];

/** The files in the ordered list under this heading of docs/architecture.md, and the files in its "Side paths". */
function listedUnder(heading: string): { listed: string[]; off: string[] } {
  const [, section = ""] = read("docs/architecture.md").split(`### ${heading}\n`);
  const [list = ""] = section.split("\n#");
  const [, offTheWay = ""] = /^Side paths: ((?:.+\n)+)/m.exec(list) ?? [];
  return {
    listed: [...list.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file]) => String(file)),
    off: [...offTheWay.matchAll(/`((?:services|shared)\/[^`]+)`/g)].map(([, file]) => String(file)),
  };
}

type Import = { target: string; isType: boolean };

function importsOf(file: string): Import[] {
  return [...read(file).matchAll(/^import (type )?([^;]*?) from "(\.[^"]+)";$/gm)].map(
    ([, whole, names = "", path = ""]) => ({
      target: posix.join(posix.dirname(file), path),
      isType: whole !== undefined || /^\{(\s*type \w+,?)+\s*\}$/.test(names),
    }),
  );
}

const PATHS = [
  {
    heading: "The path of a webhook",
    line: "services/webhooks-gateway/receive.ts",
    composition: ["services/webhooks-gateway/gateway.ts"],
    most: 8,
  },
  {
    heading: "The path of a payment",
    line: "services/x402-gateway/routes/pay-job.ts",
    composition: ["services/x402-gateway/gateway.ts"],
    most: 14,
  },
  {
    heading: "The path of a call",
    line: "services/producer/deliver.ts",
    composition: ["services/producer/main.ts", "services/producer/producer.ts"],
    most: 11,
  },
];

test.each(PATHS)("$heading lists the files that the imports show, at most $most of them", (path) => {
  const { heading, line, composition, most } = path;
  const { listed, off } = listedUnder(heading);
  expect(listed).toContain(line);
  expect(listed.length).toBeLessThanOrEqual(most);
  const named = [...listed, ...off];
  expect(named.filter((file) => !existsSync(new URL(file, root)))).toEqual([]);
  expect(new Set(named).size).toBe(named.length);

  // Every file that the straight line or a stage imports must be a stage or a tool.
  const [entry] = listed;
  const used = listed
    .filter((file) => file !== entry)
    .flatMap((file) => importsOf(file).filter(({ isType }) => !isType || file === line))
    .map(({ target }) => target)
    .filter((target) => !TOOLS.some((tool) => tool.test(target)));
  expect(
    [...new Set(used)].filter((file) => !named.includes(file)),
    "on the way, and not listed",
  ).toEqual([]);

  // Every listed file must be imported by a stage or by the composition.
  const reached = [...listed, ...composition].flatMap(importsOf).map(({ target }) => target);
  expect(
    named.slice(1).filter((file) => !reached.includes(file)),
    "listed, and used by none",
  ).toEqual([]);
});

test("a folder of shared imports only folders that are above it in the table", () => {
  const rows = [...read("docs/architecture.md").matchAll(/^\| `shared\/([^`/]+)` \|/gm)];
  const order = rows.map(([, name]) => String(name));
  const shared = new URL("shared/", root);
  expect(order.toSorted()).toEqual(readdirSync(shared).toSorted());
  const wrong = order.flatMap((name, place) => {
    const files = readdirSync(new URL(`${name}/`, shared), { recursive: true, encoding: "utf8" });
    const targets = files
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) => importsOf(`shared/${name}/${file}`))
      .flatMap(({ target }) => /^shared\/([^/]+)\//.exec(target)?.[1] ?? []);
    return [...new Set(targets)].filter((each) => order.indexOf(each) > place).map((each) => [name, each]);
  });
  expect(wrong).toEqual([]);
});
