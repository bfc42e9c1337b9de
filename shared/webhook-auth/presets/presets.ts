import type { Preset } from "../sender-description.ts";
import { chains } from "./chains.ts";
import { codeHosts } from "./code-hosts.ts";
import { commerce } from "./commerce.ts";
import { documents } from "./documents.ts";
import { messaging } from "./messaging.ts";
import { monitoring } from "./monitoring.ts";
import { standardWebhooks } from "./standard-webhooks.ts";

/** What `preset` can name: senders that are known to sign as their description says. */
export const PRESETS: Readonly<Record<string, Preset>> = {
  ...codeHosts,
  ...standardWebhooks,
  ...chains,
  ...commerce,
  ...messaging,
  ...monitoring,
  ...documents,
};
