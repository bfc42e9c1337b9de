import { expect, test } from "vitest";
import { writeEffectiveConfig } from "../../../services/dev/effective-config.ts";
import { readOwn } from "../../../services/dev/own-config.ts";
import { createPorts } from "../../../services/dev/ports.ts";
import { readTables } from "../../../shared/config/config-tables.ts";
import { newDevSecrets } from "../../../shared/dev/config.ts";
import { dirWith } from "../../shared/config/files.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("dev runs an operator's configuration only with dev's own Redis, for every kind of Redis address and login", async () => {
  const postern = [
    ...["[redis]", 'sentinels = ["10.0.0.1:26379"]', 'master_name = "main"', 'password = "of the servers"'],
    ...["[runner]", 'secret = "of the runner, 32 bytes or so long"'],
    ...["[runner.redis]", 'nodes = ["10.0.0.2:6379"]', 'password = "of the cluster"'],
  ];
  const target = tempDir();
  await writeEffectiveConfig({
    ...{ own: readOwn(dirWith({ "postern.toml": postern.join("\n") }), {}), target, env: {}, serviceId: "7" },
    ...{ sellsOnDevnet: false, devnet: undefined, ownRunner: undefined, secrets: newDevSecrets },
    ...{
      redisUrl: "redis://127.0.0.1:7777",
      ports: createPorts(undefined),
      deliverTo: "http://127.0.0.1:7778",
    },
  });
  const { redis, runner } = readTables(target).postern ?? {};
  expect(redis).toEqual({ url: "redis://127.0.0.1:7777" });
  expect(runner).not.toHaveProperty("redis");
});
