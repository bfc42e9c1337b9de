import { expect, test } from "vitest";
import { usePostern } from "../../../fixtures/postern.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: redis.url } },
  webhooks: { endpoints: [{ path: "/hooks/acme", job_id: 1, auth: "none" }] },
}));
const here = (command: string, path: string) =>
  runHere([...command.split(" "), "--endpoint", path, "--config-dir", postern.configDir]);

const COMMANDS = ["failed list", "failed discard --yes --reason x", "failed replay", "calls find"];

test.each(COMMANDS)("postern %s by a path that no endpoint has says which one was meant", async (command) => {
  for (const path of ["/Hooks/acme", "/hooks/acme/", "/hooks/%61cme", "/hooks/acne"])
    expect(await here(command, path)).toMatchObject({
      code: 2,
      stderr: `error: no endpoint has the path ${path}; did you mean /hooks/acme?\n`,
    });
});

test.each(COMMANDS)(
  "postern %s by the path of an endpoint that has no such call is no fault",
  async (command) => {
    expect(await here(command, "/hooks/acme")).toMatchObject({ code: 0 });
  },
);
