import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { sample } from "../../../support/long-run.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") } },
  webhooks: { endpoints: [{ path: "/hooks/acme", job_id: 1, auth: "none" }] },
}));
const console = useOperator({ redis });
const here = (command: string, path: string) => {
  const option = "--endpoint";
  return runHere([...command.split(" "), option, path, "--config-dir", postern.configDir]);
};

const COMMANDS = [
  "failed list",
  "failed discard --yes --reason x",
  "failed replay",
  "calls list",
  "rejected list",
];

test.each(sample(COMMANDS, 2))("postern %s with an unknown path suggests a similar one", async (command) => {
  for (const path of ["/Hooks/acme", "/hooks/acme/", "/hooks/%61cme", "/hooks/acne"])
    expect(await here(command, path)).toMatchObject({
      code: 2,
      stderr: `error: no endpoint has the path ${path}; did you mean /hooks/acme?\n`,
    });
});

test.each(sample(COMMANDS))(
  "postern %s compares the path with the endpoints that the console knows",
  async (command) => {
    const { address } = await console.start({ configDir: postern.configDir });
    const there = (path: string) => {
      const option = "--endpoint";
      const args = [option, path, "--config-dir", "/nowhere", "--operator", `http://${address}`];
      return runHere([...command.split(" "), ...args], { POSTERN_OPERATOR_TOKEN: TOKENS.operator });
    };
    expect(await there("/hooks/acne")).toMatchObject({
      code: 2,
      stderr: "error: no endpoint has the path /hooks/acne; did you mean /hooks/acme?\n",
    });
    expect(await there("/hooks/acme")).toMatchObject({ code: 0 });
  },
);

test.each(sample(COMMANDS))(
  "postern %s with the path of an endpoint without such calls succeeds",
  async (command) => {
    expect(await here(command, "/hooks/acme")).toMatchObject({ code: 0 });
  },
);

test.each(sample(COMMANDS))(
  "postern %s with a path works without webhooks.toml, and with an invalid one",
  async (command) => {
    postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } } });
    expect(await here(command, "/hooks/acme")).toMatchObject({ code: 0, stderr: "" });
    symlinkSync("nowhere", join(postern.configDir, "webhooks.toml"));
    expect(await here(command, "/hooks/acme")).toMatchObject({ code: 0, stderr: "" });
  },
);

test("postern failed replay -o json prints its outcome even for an unknown path", async () => {
  const ran = await here("failed replay -o json", "/hooks/acne");
  expect(jsonLines(ran)).toEqual([expect.objectContaining({ kind: "replay", matched: 0, done: 0 })]);
  expect(problemOf(ran)).toMatchObject({
    code: "command.invalid",
    detail: "no endpoint has the path /hooks/acne; did you mean /hooks/acme?",
    exit_code: 2,
  });
});
