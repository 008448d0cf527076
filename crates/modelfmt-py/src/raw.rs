//! Memory that Python and others read and write: buffers, private maps, DLPack. This is the only file of the
//! package with `unsafe`.
//!
//! Its safety rests on three promises:
//!
//! 1. A [`Block`] never moves and never changes its length, and its memory lives as long as the block.
//!    Everything that gets its address holds an `Arc` of it: an array through its [`Memory`], a DLPack
//!    consumer through the context of its tensor.
//! 2. No Rust reference to the memory of a block exists as long as anything has its address: Rust only copies
//!    out of it and into it through raw pointers. So an array that is written to on another thread changes no
//!    `&[u8]`. A copy that is made in the meantime has some old bytes and some new ones, as with two threads
//!    of Python that use one array.
//! 3. A map is private: changes to it stay in this process. But another process can truncate a mapped file,
//!    and then touching the missing part ends this process. That is why files are mapped only with
//!    `mmap=True`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::mem;
use std::ops::RangeInclusive;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex};

use memmap2::{MmapOptions, MmapRaw};
use modelfmt::Source;
use modelfmt::modelfmt_core::AlignedBuf;
use modelfmt::modelfmt_core::load::LoadBuffer;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Memory that never moves.
pub(crate) struct Block {
    address: *mut u8,
    len: usize,
    keep: Keep,
}

/// The owner of a block's memory.
enum Keep {
    Buffer { buffer: AlignedBuf },
    Loaded { _buffer: LoadBuffer },
    Map { _map: Arc<PrivateMap> },
}

// SAFETY: the address is of memory that belongs to the block (promise 1), and is used only for copies
// (promise 2).
unsafe impl Send for Block {}
// SAFETY: as above; a shared block gives out its address and nothing else.
unsafe impl Sync for Block {}

impl Block {
    /// Takes ownership of a buffer.
    pub(crate) fn of_buffer(mut buffer: AlignedBuf) -> Self {
        let bytes = buffer.as_mut_slice();
        // The buffer's memory is on the heap, so it stays in place when the buffer moves.
        let (address, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { address, len, keep: Keep::Buffer { buffer } }
    }

    /// Takes ownership of a loaded buffer.
    pub(crate) fn of_loaded(mut buffer: LoadBuffer) -> Self {
        let bytes: &mut [u8] = &mut buffer;
        // The buffer has its own pages, which stay in place when it moves.
        let (address, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { address, len, keep: Keep::Loaded { _buffer: buffer } }
    }

    /// Returns a part of a map, if the range is within it.
    pub(crate) fn of_map(map: &Arc<PrivateMap>, offset: u64, len: u64) -> Option<Self> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let end = offset.checked_add(len)?;
        let raw = map.raw.as_ref().filter(|raw| end <= raw.len())?;
        // SAFETY: `offset` is within the map, as was just checked.
        let address = unsafe { raw.as_mut_ptr().add(offset) };
        Some(Self { address, len, keep: Keep::Map { _map: Arc::clone(map) } })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Keep::Buffer { buffer } = &mut self.keep
            && SPARE_LEN.contains(&buffer.as_slice().len())
            && let Ok(mut spare) = SPARE.try_lock()
        {
            *spare = Some(mem::take(buffer));
        }
    }
}

/// The last buffer that was released. Filling a new one with zeros takes half as long as reading into it, and
/// a loop over slices needs the same length again and again. The lock is never waited for: after a fork, a
/// thread that no longer exists may hold it.
static SPARE: Mutex<Option<AlignedBuf>> = Mutex::new(None);

/// The lengths of buffers that are kept. Shorter ones are zeroed in no time, and longer ones would waste
/// memory if they were not needed again.
const SPARE_LEN: RangeInclusive<usize> = 4 << 10..=1 << 20;

/// Returns a buffer to read into. It holds zeros, or whatever the last buffer of this length held.
///
/// # Errors
/// If the memory cannot be allocated.
pub(crate) fn buffer(len: usize) -> io::Result<AlignedBuf> {
    if SPARE_LEN.contains(&len)
        && let Ok(mut spare) = SPARE.try_lock()
        && let Some(buffer) = spare.take_if(|buffer| buffer.as_slice().len() == len)
    {
        return Ok(buffer);
    }
    AlignedBuf::zeroed(len)
}

/// A file that is mapped privately: reading copies, and writing changes only pages of this process.
pub(crate) struct PrivateMap {
    /// `None` for an empty file, which cannot be mapped.
    raw: Option<MmapRaw>,
}

impl PrivateMap {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::new(&File::open(path)?)
    }

    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        if metadata.len() == 0 {
            return Ok(Self { raw: None });
        }
        // Without reserving swap, because otherwise a map larger than memory would be refused although nobody
        // writes to it.
        // SAFETY: no reference to the map is ever made, only its address is used (promises 2 and 3).
        let map = unsafe { MmapOptions::new().no_reserve_swap().map_copy(file)? };
        Ok(Self { raw: Some(MmapRaw::from(map)) })
    }
}

/// Reading copies, so that the library never holds a reference to memory that Python may write to.
impl Source for PrivateMap {
    fn len(&self) -> u64 {
        self.raw.as_ref().map_or(0, |raw| raw.len() as u64)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let beyond = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let offset = usize::try_from(offset).map_err(|_| beyond())?;
        let end = offset.checked_add(out.len()).ok_or_else(beyond)?;
        let Some(raw) = &self.raw else { return if end == 0 { Ok(()) } else { Err(beyond()) } };
        if end > raw.len() {
            return Err(beyond());
        }
        // SAFETY: the range is within the map, and `out` is other memory.
        unsafe { ptr::copy_nonoverlapping(raw.as_ptr().add(offset), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

/// A map that models and arrays share.
pub(crate) struct SharedMap(pub(crate) Arc<PrivateMap>);

impl Source for SharedMap {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_into(offset, out)
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

/// Values in memory, for the buffer protocol and DLPack. A consumer keeps them alive.
#[pyclass(frozen, module = "modelfmt._modelfmt")]
pub(crate) struct Memory(Arc<Block>);

impl Memory {
    pub(crate) fn new(block: Block) -> Self {
        Self(Arc::new(block))
    }
}

#[pymethods]
impl Memory {
    /// Copies the bytes of an object with the buffer protocol.
    #[staticmethod]
    fn copy_of(py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given = PyBytesSource::of(bytes)?;
        let mut buffer = AlignedBuf::zeroed(given.len)?;
        py.detach(|| given.copy(0, &mut buffer));
        Ok(Self::new(Block::of_buffer(buffer)))
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len
    }

    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.0.len, |out| {
            // SAFETY: both are `len` bytes long (promise 1), and the new object's memory is its own.
            unsafe { ptr::copy_nonoverlapping(self.0.address, out.as_mut_ptr(), out.len()) };
            Ok(())
        })
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (address, len) = (slf.get().0.address, slf.get().0.len);
        let len = ffi::Py_ssize_t::try_from(len).map_err(|_| PyBufferError::new_err("too long"))?;
        // SAFETY: `view` is the interpreter's, by the buffer protocol. The object with which it is filled
        // keeps the block alive.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address.cast(), len, 0, flags) };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    /// A capsule for `__dlpack__`: of the versioned kind if `version` is 1 or more, else of the old one.
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        code: u8,
        bits: u8,
        shape: Vec<i64>,
        version: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        if cfg!(target_endian = "big") {
            return Err(PyBufferError::new_err(
                "the values are little-endian, and DLPack has the byte order of the machine",
            ));
        }
        let fits = shape.iter().try_fold(i64::from(bits), |bits, &dim| bits.checked_mul(dim.max(0)));
        if fits.and_then(|bits| u64::try_from(bits).ok()).map(|bits| bits.div_ceil(8))
            != Some(self.0.len as u64)
        {
            return Err(PyValueError::new_err("type and shape do not take these bytes"));
        }
        let tensor = DlTensor::new(Arc::clone(&self.0), code, bits, shape);
        if version >= 1 { versioned_capsule(py, tensor) } else { old_capsule(py, tensor) }
    }
}

/// The bytes of a Python object with the buffer protocol. They stay in place as long as this exists.
pub(crate) struct PyBytesSource {
    address: *const u8,
    len: usize,
    /// Releases the object when it is dropped, for which it attaches to the interpreter.
    _buffer: PyBuffer<u8>,
}

// SAFETY: the address is of memory that the buffer keeps, and is only copied from.
unsafe impl Send for PyBytesSource {}
// SAFETY: as above.
unsafe impl Sync for PyBytesSource {}

impl PyBytesSource {
    /// Takes any object that holds plain contiguous bytes.
    pub(crate) fn of(bytes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(bytes)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the bytes are not contiguous"));
        }
        Ok(Self { address: buffer.buf_ptr().cast_const().cast(), len: buffer.len_bytes(), _buffer: buffer })
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Fills `out` with the bytes from `offset` on. Returns false if there are not enough.
    pub(crate) fn copy(&self, offset: u64, out: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: the range is within the object's memory, which the buffer keeps, and `out` is other memory.
        // If another thread of Python writes to the object in the meantime, some bytes are old and some new.
        unsafe { ptr::copy_nonoverlapping(self.address.add(offset), out.as_mut_ptr(), out.len()) };
        true
    }
}

/// The content of a `bytes` object as a file.
impl Source for PyBytesSource {
    fn len(&self) -> u64 {
        self.len as u64
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.copy(offset, out) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

/// `DLDevice`, `DLDataType` and `DLTensor` of dlpack.h.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// The data that a consumer's tensor keeps alive.
struct Context {
    _block: Arc<Block>,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut Context,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`, of version 1.0.
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut Context,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

impl DlTensor {
    const CPU: i32 = 1;

    fn new(block: Arc<Block>, code: u8, bits: u8, shape: Vec<i64>) -> (Self, Box<Context>) {
        let mut strides = vec![1i64; shape.len()];
        let mut stride = 1i64;
        for (place, dim) in strides.iter_mut().zip(&shape).rev() {
            *place = stride;
            stride = stride.saturating_mul((*dim).max(1));
        }
        let (data, ndim) = (block.address.cast(), i32::try_from(shape.len()).unwrap_or(0));
        let (shape, strides) = (shape.into_boxed_slice(), strides.into_boxed_slice());
        let mut context = Box::new(Context { _block: block, shape, strides });
        let tensor = Self {
            data,
            device_type: Self::CPU,
            device_id: 0,
            ndim,
            code,
            bits,
            lanes: 1,
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        (tensor, context)
    }
}

/// Defines one of the two kinds of capsules, which differ in their names and in the position of the deleter.
macro_rules! capsule {
    ($make:ident, $delete:ident, $destroy:ident, $managed:ident, $name:literal, $fields:expr) => {
        fn $make(py: Python<'_>, parts: (DlTensor, Box<Context>)) -> PyResult<Bound<'_, PyAny>> {
            let (tensor, context) = parts;
            let make: fn(DlTensor, *mut Context) -> $managed = $fields;
            let managed = Box::into_raw(Box::new(make(tensor, Box::into_raw(context))));
            // SAFETY: the name is static, and the destructor and the deleter expect a pointer of this type.
            let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), $name.as_ptr(), Some($destroy)) };
            if capsule.is_null() {
                // SAFETY: the capsule was not made, so this is the only pointer.
                unsafe { $delete(managed) };
                return Err(PyErr::fetch(py));
            }
            // SAFETY: this is a new reference, and the only one.
            Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
        }

        /// Releases the memory. A consumer calls it once, on any thread, with or without the GIL: it touches
        /// no Python object.
        unsafe extern "C" fn $delete(managed: *mut $managed) {
            if managed.is_null() {
                return;
            }
            // SAFETY: both come from `Box::into_raw` above, and the consumer gives them back once (dlpack.h,
            // "deleter").
            unsafe {
                let managed = Box::from_raw(managed);
                drop(Box::from_raw(managed.context));
            }
        }

        /// Releases the tensor of a capsule that nobody consumed, which still has its first name.
        unsafe extern "C" fn $destroy(capsule: *mut ffi::PyObject) {
            // SAFETY: the interpreter passes its own capsule; a pointer under this name was put there above.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule, $name.as_ptr()) == 1 {
                    let managed = ffi::PyCapsule_GetPointer(capsule, $name.as_ptr());
                    $delete(managed.cast());
                }
            }
        }
    };
}
capsule!(old_capsule, delete_old, destroy_old, Managed, c"dltensor", |tensor, context| Managed {
    tensor,
    context,
    deleter: Some(delete_old),
});
capsule!(
    versioned_capsule,
    delete_versioned,
    destroy_versioned,
    ManagedVersioned,
    c"dltensor_versioned",
    |tensor, context| ManagedVersioned {
        major: 1,
        minor: 0,
        context,
        deleter: Some(delete_versioned),
        flags: 0,
        tensor,
    }
);
