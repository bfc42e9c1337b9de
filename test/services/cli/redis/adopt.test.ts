import { beforeEach, expect, test } from "vitest";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(redis.url, "operator") } } }));

beforeEach(() => redis.client.flushdb());

test("postern redis adopt asks first, and changes nothing without a confirmation", async () => {
  const questions: string[] = [];
  const adopt = (answer: string, ...more: string[]) => {
    const args = ["redis", "adopt", "--reason", "disk lost", ...more, "--config-dir", postern.configDir];
    const ask = async (question: string) => {
      questions.push(question);
      return answer;
    };
    return runHere(args, {}, { canAsk: true, ask });
  };
  expect(await adopt("", "--since", "1h")).toMatchObject({ code: 1, stdout: "nothing was changed\n" });
  expect(await redis.client.exists(keys.deployment)).toBe(0);
  expect(questions.join()).toContain("sell no job until `postern payments audit` has run? [y/N] ");
  expect(await adopt("y", "--without-audit")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^adopted /),
  });
  expect(questions[1]).toContain("continue to sell jobs? [y/N] ");
});
