import time,numpy as np
from dynid.robot import load_example
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.rows.torque import TorqueRows
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms import Coulomb, Offset, RigidBody, Terms, Viscous
from dynid import kernel
robot=load_example('arm7'); terms=Terms((RigidBody(),Viscous(),Coulomb(0.02)))
wanted=structural_base(robot,terms,TorqueRows()).mask
rng=np.random.default_rng(0); T=3764
q,dq,ddq,tau=(rng.normal(size=(T,7)) for _ in range(4))
s=Samples.from_motion(q,dq,ddq,tau,rate=100.); 
from dataclasses import replace
s=replace(s,span=0.01)
A=Assembly(robot,terms,TorqueRows(),wanted,ParallelFilter(100.,6.2,4,3),60.)
def best(f,n=15):
    b=9e9
    for _ in range(n):
        t=time.thread_time(); f(); b=min(b,time.thread_time()-t)
    return b/T*1e6
print('blocks',best(lambda:A._blocks(s,np.zeros(0,bool))))
print('equations',best(lambda:A.rows.equations(robot,terms,s,wanted)))
e=A.rows.equations(robot,terms,s,wanted); print('lines',sum(len(p) for p in e.panels))
print('filtered',best(lambda:A.filtered(e,s)))
print('rigid',best(lambda:RigidBody().torque_regressor(robot,s,wanted[:len(RigidBody().columns(robot))])))
f=A.parallel._filter
big=np.concatenate(e.panels); print('zero phase all',best(lambda:f(big,0,3)))
fl,_=A.filtered(e,s); 
print('qr',best(lambda:[kernel.qr_panel(np.ascontiguousarray(p)) for p in fl.panels]))
print('coulomb',best(lambda:Coulomb(0.02).torque_regressor(robot,s,np.ones(7,bool))))
print('viscous',best(lambda:Viscous().torque_regressor(robot,s,np.ones(7,bool))))
print('known',best(lambda:terms.known_torque(robot,s)))
