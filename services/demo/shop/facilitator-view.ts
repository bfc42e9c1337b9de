import type { Devnet } from "../../../shared/dev/devnet.ts";
import { httpRequest } from "../http-request.ts";

/** How often the facilitator was asked about a payer. */
export type Asked = { verify: number; settle: number };

/** The devnet's facilitator, by its control port. */
export type FacilitatorView = {
  askedAbout(payer: string): Promise<Asked>;
  /** The next settle request is carried out, and its answer is lost. */
  loseNextReply(): Promise<void>;
};

export function createFacilitatorView({ controlUrl }: Devnet): FacilitatorView {
  const { host } = new URL(controlUrl);
  return {
    async askedAbout(payer) {
      const { text } = await httpRequest(host, { method: "GET", path: "/requests" });
      const { requests } = JSON.parse(text) as { requests: { on: keyof Asked; payer?: string }[] };
      const about = requests.filter((request) => request.payer === payer.toLowerCase());
      const count = (on: keyof Asked): number => about.filter((request) => request.on === on).length;
      return { verify: count("verify"), settle: count("settle") };
    },
    async loseNextReply() {
      const body = JSON.stringify({ on: "settle", kind: "drop", acts: true, times: 1 });
      const { status, text } = await httpRequest(host, { method: "POST", path: "/faults", body });
      if (status !== 201) throw new Error(`expected: the control port takes a fault; it answered ${text}`);
    },
  };
}
