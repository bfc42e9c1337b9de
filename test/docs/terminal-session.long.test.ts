import { expect, test } from "vitest";
import { needs } from "../support/needs.ts";
import { drawTerminal } from "./terminal-picture.ts";
import { recordSession } from "./terminal-session.ts";

test(
  "docs/session.svg shows what a terminal shows in a real session; -u draws it again",
  needs("script", "curl"),
  async () => {
    const title = "A webhook survives SIGKILL";
    const description =
      "curl sends a webhook and gets 202. Redis, the console, the gateway and the producer are killed with SIGKILL and started again. The call is injected, and its job runs once.";
    const picture = drawTerminal({ title, description, scenes: await recordSession() });
    await expect(picture).toMatchFileSnapshot("../../docs/session.svg");
  },
);
