// A page that was opened as a file may start no worker. A frame does the work of the search then.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    this.inside = frame.contentWindow
    this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
    const script = frame.contentDocument.createElement("script")
    script.src = url
    this.ready = new Promise(done => { script.onload = done })
    frame.contentDocument.body.append(script)
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", {data})))
  }
}
