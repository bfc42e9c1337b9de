import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { bareApp, serve } from "../../shared/http/ops.ts";
import { delay } from "../../shared/time/clock.ts";
import type { Facilitator, FacilitatorRequest } from "./facilitator.ts";
import { sendFault } from "./false-answer.ts";
import type { Faults, Operation } from "./faults.ts";
import { describeRequest } from "./payment.ts";
import { readJson } from "./read-json.ts";
import type { Counter } from "./received.ts";
import { type Answer, sendAnswer, trueAnswer } from "./true-answer.ts";

type Deps = { facilitator: Facilitator; faults: Faults; counter: Counter };

/** The HTTP API of an x402 facilitator, with the faults that are ordered. */
export function createFacilitatorHandler({ facilitator, faults, counter }: Deps): RequestListener {
  const handle = (on: Operation) => async (req: IncomingMessage, res: ServerResponse) => {
    const request = (await readJson(req, res)) as FacilitatorRequest;
    counter.take({ on, ...describeRequest(request), headers: req.headers });
    const fault = faults.take(on);
    if (fault === undefined) {
      sendAnswer(res, await trueAnswer(facilitator, on, request));
      return;
    }
    await delay(fault.delayMs);
    let truth: Answer | undefined;
    if (fault.acts) truth = await trueAnswer(facilitator, on, request);
    await delay(fault.replyDelayMs);
    await sendFault(res, fault, { facilitator, request, truth });
  };

  const app = bareApp();
  app.get("/supported", handle("supported"));
  app.post("/verify", handle("verify"));
  app.post("/settle", handle("settle"));
  app.use("/redirected", (_req, res) => {
    counter.count("redirected");
    res.json({});
  });
  return serve(app);
}
