// A member of a group that NDNts synchronises by State Vector Sync, version 3.

import { consume, produce } from "@ndn/endpoint";
import { SequenceNum, Timestamp } from "@ndn/naming-convention2";
import { Data, Name, digestSigning } from "@ndn/packet";
import { SvSync } from "@ndn/svs";

const TIMING = { suppressionPeriod: 200 };

/** Publishes below its name, and tells what others have published, one update at a time. */
export class Membership {
  static async join(group, node) {
    const sync = await SvSync.create({
      syncPrefix: new Name(group),
      signer: digestSigning,
      verifier: digestSigning,
      svs3: true,
      ...TIMING,
    });
    return new Membership(sync, sync.add(node));
  }

  constructor(sync, own) {
    this.sync = sync;
    this.own = own;
    this.texts = new Map();
    this.heard = [];
    this.listener = undefined;
    sync.addEventListener("update", (update) => {
      this.heard.push(update);
      this.listener?.();
    });
    produce(this.prefixOf(own.id), async (interest) => this.answer(interest), {
      dataSigner: digestSigning,
    });
  }

  /** Below which a member of that identity publishes. */
  prefixOf({ name, boot }) {
    return name.append(...this.sync.syncPrefix.comps).append(Timestamp.us, boot);
  }

  get prefix() {
    return this.prefixOf(this.own.id);
  }

  publish(text) {
    const name = this.prefix.append(SequenceNum, this.own.seqNum + 1);
    this.texts.set(name.toString(), text);
    this.own.seqNum += 1;
    return name;
  }

  /** The next update, and the texts that it announces. */
  async hear() {
    while (this.heard.length === 0) {
      await new Promise((resolve) => {
        this.listener = resolve;
      });
    }
    const update = this.heard.shift();
    const texts = [];
    for (const seqNum of update.seqNums()) {
      const name = this.prefixOf(update.id).append(SequenceNum, seqNum);
      const data = await consume(name, { retx: 2, verifier: digestSigning });
      texts.push(Buffer.from(data.content).toString());
    }
    return { node: update.id.name.toString(), texts };
  }

  answer(interest) {
    const text = this.texts.get(interest.name.toString());
    return text === undefined ? undefined : new Data(interest.name, Buffer.from(text), Data.FreshnessPeriod(60_000));
  }
}
